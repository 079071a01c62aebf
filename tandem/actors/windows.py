"""The window broker: the service's own work runs while nobody asks for anything, one job at a time (SCH-080, SCH-090).

Owns: whether the engine is idle, who wants a window, who is inside one. Slot 0 is held for the job by a grant of the
lowest rank, so a request that comes meanwhile stands in the queue as behind any other, and the job yields to it at its
next chunk (SCH-081).

| message in   | from     | answer or effect                                                                |
|--------------|----------|---------------------------------------------------------------------------------|
| `WantWindow` | own work | a `Window` into its inbox once one opens, in the order asked; or `NotAllowed`   |
| `Done`       | own work | its window is closed and slot 0 free; outside of one, it wants none any more    |
| `Idle`       | queue    | no request holds an engine, none waits and no lane job is pending               |
| `Arrived`    | queue    | a request has come, or the drain: who is inside is told to yield                |
| `Answered`   | itself   | what the queue has said to its entry: the window opens, or the slot goes back   |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, assert_never

import trio

from tandem.actors.keeper import Busy, KeeperMessage, Rested
from tandem.actors.kit import Actor, ActorGone, Ref, Reply
from tandem.actors.line import Rank
from tandem.actors.queue import Arrived, Enter, Granted, Idle, Leave, Lent, QueueMessage, Refused, SlotFree
from tandem.actors.watchdog import WatchdogMessage, WindowsSeen

__all__ = [
    "Answered",
    "Arrived",
    "Done",
    "Idle",
    "NotAllowed",
    "OwnJob",
    "Role",
    "WantWindow",
    "Window",
    "WindowMessage",
    "Windows",
    "refusal",
]

OwnJob: TypeAlias = Literal["summary", "reader", "deciders", "probe"]

Role: TypeAlias = Literal["idle", "in_decode", "any"]
"""When a role may run (SCH-090)."""

IN_DECODE: Final[Mapping[OwnJob, str]] = {
    "deciders": "decision models run beside a request once there is a governed low-priority stream",
    "probe": "a probe that runs while a request decodes is part of the request's own passes",
}


def refusal(work: OwnJob, role: Role) -> str | None:
    """Why there is no window for a job of this role; None where there is one (SCH-090)."""
    if role != "in_decode":
        return None
    return IN_DECODE.get(work, "only deciders and probes may run while a request decodes")


@dataclass(frozen=True, slots=True)
class Window:
    """Slot 0's engine is the job's until it says `Done`, by its next chunk once `yield_now` is set."""

    slot: int
    queue: Ref[QueueMessage]
    yield_now: trio.Event = field(default_factory=trio.Event)
    reply: Reply[None] = field(default_factory=Reply, compare=False, repr=False)
    """Answered as the job leaves; dropped where it stays off and has never read this."""

    async def leave(self, name: OwnJob, windows: Ref[WindowMessage]) -> None:
        """The job's end of it. Where the broker has ended for good, the slot must not stay held."""
        self.reply.send(None)
        try:
            await windows.tell(Done(name))
        except ActorGone:
            self.queue.offer(SlotFree(self.slot))


@dataclass(frozen=True, slots=True)
class NotAllowed:
    reason: str


@dataclass(frozen=True, slots=True)
class WantWindow:
    name: OwnJob
    role: Role
    to: Ref[Any]
    """The inbox that gets the `Window`."""


@dataclass(frozen=True, slots=True)
class Done:
    name: OwnJob


@dataclass(frozen=True, slots=True)
class Answered:
    granted: int | None
    """The slot; None: there was none to be had."""


WindowMessage: TypeAlias = WantWindow | Done | Idle | Arrived | Answered


@dataclass(frozen=True, slots=True)
class _Inside:
    name: OwnJob
    window: Window
    since: float


class Windows(Actor[WindowMessage]):
    """The keeper is told of own work as of a request: what is to go to the disk waits till the sequence is closed."""

    name = "windows"
    essential = False
    inbox_size = 256

    def __init__(self, *, watchdog: Ref[WatchdogMessage]) -> None:
        super().__init__()
        self._watchdog = watchdog
        self._queue: Ref[QueueMessage]
        self._keeper: Ref[KeeperMessage]
        self._wants: dict[OwnJob, WantWindow] = {}
        self._idle = False
        self._entered = False
        self._inside: _Inside | None = None
        self._seconds: dict[str, float] = {}

    def begin_with(self, queue: Ref[QueueMessage], keeper: Ref[KeeperMessage]) -> None:
        """Wiring, before `run`: the queue, which has to know of this, and the keeper."""
        self._queue, self._keeper = queue, keeper

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._entered = False
            self._report()
            task_status.started()
            watched: _Inside | None = None
            async for message in self.inbox:
                await self._take(message)
                if self._inside is not None and self._inside is not watched:
                    watched = self._inside
                    nursery.start_soon(self._watch, watched)
                if self._idle and self._wants and self._inside is None and not self._entered:
                    self._entered = True
                    nursery.start_soon(self._enter)

    async def _take(self, message: WindowMessage) -> None:
        match message:
            case WantWindow(name, role, to):
                if (reason := refusal(name, role)) is not None:
                    to.offer(NotAllowed(reason))
                else:
                    self._wants.setdefault(name, message)
            case Done(name):
                self._wants.pop(name, None)
                if self._inside is not None and self._inside.name == name:
                    await self._close(self._inside)
            case Idle():
                self._idle = True
            case Arrived():
                self._idle = False
                if self._inside is not None:
                    self._inside.window.yield_now.set()
            case Answered(slot):
                self._entered = False
                if slot is None:
                    self._idle = False
                elif not (self._idle and self._open(slot)):
                    await self._queue.tell(SlotFree(slot))
            case _:
                assert_never(message)

    async def _enter(self) -> None:
        """Stand in the line with the lowest rank, and say here what has come of it."""
        reply = Reply[Granted | Refused | Lent]()
        answer: Granted | Refused | Lent | None = None
        try:
            await self._queue.tell(Enter(self.name, Rank.OWN, reply))
            answer = await reply.wait()
        except ActorGone:
            pass  # the service ends
        finally:
            if answer is None:  # after a defect: it enters anew under the same name
                if isinstance(unread := reply.take_nowait(), Granted):
                    self._queue.offer(SlotFree(unread.slot))
                self._queue.offer(Leave(self.name, Reply()))
            reply.close()
        await self.ref.tell(Answered(answer.slot if isinstance(answer, Granted) else None))

    async def _watch(self, inside: _Inside) -> None:
        """A window must not stay open for a job that has ended for good before it read of it."""
        try:
            await inside.window.reply.wait()
        except ActorGone:
            await self.ref.tell(Done(inside.name))

    def _open(self, slot: int) -> bool:
        """Let the first in who still listens; whether there was anybody."""
        while self._wants:
            name = next(iter(self._wants))
            window = Window(slot, self._queue)
            if self._wants.pop(name).to.offer(window):
                self._inside = _Inside(name, window, trio.current_time())
                self._keeper.offer(Busy(slot))
                self._report()
                return True
        return False

    async def _close(self, inside: _Inside) -> None:
        self._inside = None
        self._seconds[inside.name] = self._seconds.get(inside.name, 0.0) + trio.current_time() - inside.since
        self._keeper.offer(Rested(inside.window.slot))
        self._report()
        await self._queue.tell(SlotFree(inside.window.slot))

    def _report(self) -> None:
        self._watchdog.offer(WindowsSeen(None if self._inside is None else self._inside.name, dict(self._seconds)))

    def __repr__(self) -> str:
        inside = None if self._inside is None else self._inside.name
        return f"<Windows idle {self._idle}, inside {inside}, wanted by {list(self._wants)}>"
