"""The queue: admits requests to slots, keeps the rest in line, and refuses what it cannot hold.

Owns: who waits, which slots are free, the drain flag. Never waits for a slot or an asker.

| message in | from         | answer or effect                                             |
|------------|--------------|--------------------------------------------------------------|
| `Enter`    | request task | `Granted` or `Refused` on `reply`, at once or when it is due |
| `Leave`    | request task | out of the line; answered when that is done                  |
| `Where`    | request task | the position now, or None                                    |
| `SlotFree` | slot         | the best waiter is granted                                   |
| `SlotGone` | slot         | nobody is granted it and no drain waits for it any more      |
| `Drain`    | service      | the line is refused; answered once every slot is free        |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, assert_never

import trio

from tandem.actors.kit import Actor, Ref, Reply
from tandem.actors.line import Rank, WaitingLine
from tandem.actors.watchdog import QueueSeen

if TYPE_CHECKING:
    from tandem.actors.live import LiveMessage
    from tandem.actors.slots import SlotMessage
    from tandem.actors.watchdog import WatchdogMessage

__all__ = ["Drain", "Enter", "Granted", "Leave", "Queue", "QueueMessage", "Refused", "SlotFree", "SlotGone", "Where"]


SHOWN_LINE = 64
"""How many of those who wait are reported by name."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The request may run on this slot; it must `Run` there, or give the grant back with `SlotFree`."""

    slot: int
    ref: Ref[SlotMessage]


@dataclass(frozen=True, slots=True)
class Refused:
    """Not taken; `code` is the wire's: `queue_full` or `draining`."""

    code: str


@dataclass(frozen=True, slots=True)
class Enter:
    request_id: str
    rank: Rank
    reply: Reply[Granted | Refused]


@dataclass(frozen=True, slots=True)
class Leave:
    request_id: str
    reply: Reply[bool]
    """True when it still waited; False when it had been granted or refused."""


@dataclass(frozen=True, slots=True)
class Where:
    request_id: str
    reply: Reply[int | None]


@dataclass(frozen=True, slots=True)
class SlotFree:
    slot: int


@dataclass(frozen=True, slots=True)
class SlotGone:
    """The slot's actor has failed (SCH-006)."""

    slot: int


@dataclass(frozen=True, slots=True)
class Drain:
    reply: Reply[None]


QueueMessage: TypeAlias = Enter | Leave | Where | SlotFree | SlotGone | Drain


class Queue(Actor[QueueMessage]):
    name = "queue"
    inbox_size = 256  # waiting requests are bounded by max_queue; this holds bursts of arrivals that will be refused

    def __init__(self, *, max_queue: int, watchdog: Ref[WatchdogMessage], live: Ref[LiveMessage] | None = None) -> None:
        super().__init__()
        self._max_queue = max_queue
        self._watchdog = watchdog
        self._live = live
        self._reported: QueueSeen | None = None
        self._line = WaitingLine()
        self._replies: dict[str, Reply[Granted | Refused]] = {}
        self._slots: dict[int, Ref[SlotMessage]] = {}
        self._free: set[int] = set()
        self._drain: list[Reply[None]] = []
        self._draining = False

    def add_slot(self, slot: int, ref: Ref[SlotMessage]) -> None:
        """Wiring, before `run`: a slot that is free from the start."""
        self._slots[slot] = ref
        self._free.add(slot)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._report()
        task_status.started()
        async for message in self.inbox:
            self._take(message)
            self._report()

    def _take(self, message: QueueMessage) -> None:
        match message:
            case Enter():
                self._enter(message)
            case Leave(request_id, reply):
                self._replies.pop(request_id, None)
                reply.send(self._line.leave(request_id))
            case Where(request_id, reply):
                reply.send(self._line.position(request_id))
            case SlotFree(slot):
                if slot in self._slots:
                    self._free.add(slot)
                self._grant()
            case SlotGone(slot):
                self._slots.pop(slot, None)
                self._free.discard(slot)
            case Drain(reply):
                self._start_drain(reply)
            case _:
                assert_never(message)
        if self._drain and len(self._free) == len(self._slots):
            for drained in self._drain:
                drained.send(None)
            self._drain.clear()

    def _enter(self, message: Enter) -> None:
        if self._draining:
            message.reply.send(Refused("draining"))
            return
        if not self._free and len(self._line) >= self._max_queue:
            message.reply.send(Refused("queue_full"))
            return
        self._line.enter(message.request_id, message.rank)
        self._replies[message.request_id] = message.reply
        self._grant()

    def _grant(self) -> None:
        while self._free and (request_id := self._line.pop()) is not None:
            slot = min(self._free)
            if self._replies.pop(request_id).send(Granted(slot, self._slots[slot])):
                self._free.discard(slot)

    def _start_drain(self, reply: Reply[None]) -> None:
        self._draining = True
        self._drain.append(reply)
        for request_id in self._line.waiting():
            self._line.leave(request_id)
            self._replies.pop(request_id).send(Refused("draining"))

    def _report(self) -> None:
        seen = QueueSeen(
            waiting=len(self._line),
            running=len(self._slots) - len(self._free),
            draining=self._draining,
            line=self._line.order(SHOWN_LINE),
        )
        if seen == self._reported:
            return
        if self._watchdog.offer(seen) and (self._live is None or self._live.offer(seen)):
            self._reported = seen

    def __repr__(self) -> str:
        return f"<Queue {len(self._line)} waiting, free slots {sorted(self._free)}, draining {self._draining}>"
