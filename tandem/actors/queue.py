"""The queue: admits requests to slots, keeps the rest in line, and refuses what it cannot hold.

Owns: who waits, which slots are free, the drain flag. Never waits for a slot or an asker.

| message in     | from         | answer or effect                                                      |
|----------------|--------------|-----------------------------------------------------------------------|
| `Enter`        | request task | `Granted`, `Lent` or `Refused` on `reply`, at once or when it is due  |
| `Leave`        | request task | out of the line, or of the lane; answered when that is done           |
| `Where`        | request task | the place now, or None                                                |
| `TakeLane`     | slot 0       | the next lane job, whose requester gets `Lent`; or None               |
| `SlotProgress` | slot         | kept, for the estimates                                               |
| `SlotFree`     | slot         | the best waiter is granted; lane jobs that slot 0 left stand in line  |
| `SlotGone`     | slot         | nobody is granted it and no drain waits for it any more               |
| `Drain`        | service      | the line is refused; answered once every slot is free                 |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, assert_never

import trio

from tandem.actors.choosing import Candidate, Needs, Resident, SlotRules
from tandem.actors.estimates import SlotProgress
from tandem.actors.kit import Actor, Ref, Reply
from tandem.actors.line import Rank
from tandem.actors.live import WaitsSeen
from tandem.actors.waiters import Place, Reason, Waiters
from tandem.actors.watchdog import QueueSeen

if TYPE_CHECKING:
    from tandem.actors.live import LiveMessage
    from tandem.actors.slots import Run, SlotMessage
    from tandem.actors.watchdog import WatchdogMessage
    from tandem.actors.windows import WindowMessage

__all__ = [
    "Arrived",
    "Drain",
    "Enter",
    "Granted",
    "Idle",
    "LaneWaiting",
    "Leave",
    "Lent",
    "Needs",
    "Place",
    "Queue",
    "QueueMessage",
    "Reason",
    "Refused",
    "Resident",
    "SlotFree",
    "SlotGone",
    "SlotProgress",
    "TakeLane",
    "Where",
]

SHOWN_LINE, TOLD, TELL_EVERY_S = 64, 8, 0.25
"""How many of those who wait are reported by name; of how many it is told why and how long, and how often at most of
the same ones, since estimates change at any time."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The request may run on this slot; it must `Run` there, or give the grant back with `SlotFree`."""

    slot: int
    ref: Ref[SlotMessage]
    guest: bool = False
    """A lane job that no holder took: it runs as a guest of the resident rows (SCH-043)."""
    wait_own_s: float = 0.0
    """How long own work alone stood before it (SCH-037)."""


@dataclass(frozen=True, slots=True)
class Lent:
    """A holder serves the lane job at a safe point: its outbox gets the answer, `Cancel` goes to this slot."""

    slot: int
    ref: Ref[SlotMessage]


@dataclass(frozen=True, slots=True)
class Refused:
    """Not taken; `code` is the wire's: `queue_full` or `draining`."""

    code: str


@dataclass(frozen=True, slots=True)
class Enter:
    """`lane` is what a holder may serve at a safe point, `needs` what a side slot is chosen by; without, slot 0's."""

    request_id: str
    rank: Rank
    reply: Reply[Granted | Refused | Lent]
    needs: Needs | None = None
    lane: Run | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    request_id: str
    reply: Reply[bool]
    """True when it still waited; False when it had been granted or refused."""


@dataclass(frozen=True, slots=True)
class Where:
    request_id: str
    reply: Reply[Place | None]


@dataclass(frozen=True, slots=True)
class SlotFree:
    slot: int
    resident: Resident | None = None
    """Slot 0 says what a next turn would resume from; None leaves what it said last."""
    progress: SlotProgress | None = None
    """Where the request came to its own end: how much it had written, which teaches the estimates."""


@dataclass(frozen=True, slots=True)
class TakeLane:
    """Slot 0 is at a safe point; the next lane job there is on `reply`, or None."""

    reply: Reply[Run | None]


@dataclass(frozen=True, slots=True)
class SlotGone:
    """The slot's actor has failed (SCH-006)."""

    slot: int


@dataclass(frozen=True, slots=True)
class Drain:
    reply: Reply[None]


@dataclass(frozen=True, slots=True)
class LaneWaiting:
    """To slot 0: a lane job waits for a safe point, where the slot asks for it with `TakeLane`."""


@dataclass(frozen=True, slots=True)
class Idle:
    """To the window broker: no request holds an engine, none waits and no lane job is pending (SCH-080)."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """To the window broker: a request has come, or a drain: who is inside a window is told to yield."""


QueueMessage: TypeAlias = Enter | Leave | Where | SlotFree | SlotGone | TakeLane | SlotProgress | Drain


class Queue(Actor[QueueMessage]):
    name = "queue"
    inbox_size = 256  # waiting requests are bounded by max_queue; this holds bursts of arrivals that will be refused

    def __init__(
        self,
        *,
        max_queue: int,
        watchdog: Ref[WatchdogMessage],
        live: Ref[LiveMessage] | None = None,
        windows: Ref[WindowMessage] | None = None,
        rules: SlotRules = SlotRules(),  # noqa: B008  frozen
    ) -> None:
        super().__init__()
        self._watchdog = watchdog
        self._live = live
        self._windows = windows
        self._reported: QueueSeen | None = None
        self._told, self._tell_at = WaitsSeen({}, ()), 0.0
        self._told_idle = False
        self._waiters = Waiters(max_queue=max_queue, rules=rules)
        self._entered: dict[str, Enter] = {}
        """Whoever waits, in the line or in the lane."""
        self._slots: dict[int, Ref[SlotMessage]] = {}
        self._drain: list[Reply[None]] = []

    def add_slot(self, slot: int, ref: Ref[SlotMessage]) -> None:
        """Wiring, before `run`: a slot that is free from the start."""
        self._slots[slot] = ref
        self._waiters.add_slot(slot)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._report()
        task_status.started()
        async for message in self.inbox:
            now = trio.current_time()
            self._take(message, now)
            self._report()
            self._tell_of_waits(now)

    def _take(self, message: QueueMessage, now: float) -> None:
        match message:
            case Enter():
                self._enter(message, now)
            case Leave(request_id, reply):
                self._entered.pop(request_id, None)
                reply.send(self._waiters.leave(request_id))
            case Where(request_id, reply):
                reply.send(self._waiters.place(request_id, now))
            case TakeLane(reply):
                self._lend(reply)
            case SlotProgress(slot=slot):
                self._waiters.progress(message, now)
                if slot == 0:
                    self._tell_of_lane()  # again, in case it knew of no request yet when it was told
            case SlotFree(slot, resident, progress):
                self._refuse(self._waiters.free(slot, resident, progress, now), "draining")
            case SlotGone(slot):
                self._refuse(self._waiters.gone(slot), "draining")
            case Drain(reply):
                self._drain.append(reply)
                self._refuse(self._waiters.drain(), "draining")
            case _:
                assert_never(message)
        self._grant(now)
        if self._waiters.is_drained:
            for drained in self._drain:
                drained.send(None)
            self._drain.clear()

    def _enter(self, message: Enter, now: float) -> None:
        if self._waiters.draining:
            message.reply.send(Refused("draining"))
            return
        key = message.request_id
        self._entered[key] = message
        self._waiters.enter(Candidate(key, message.rank, message.needs, message.lane is not None), now)
        self._grant(now)
        if self._waiters.is_too_many(key):
            self._waiters.leave(key)
            self._refuse([key], "queue_full")
        elif message.lane is not None:
            self._tell_of_lane()

    def _grant(self, now: float) -> None:
        while (grant := self._waiters.next_grant(now)) is not None:
            granted = Granted(grant.slot, self._slots[grant.slot], grant.guest, grant.wait_own_s)
            if not self._entered.pop(grant.key).reply.send(granted):
                self._waiters.undo(grant)

    def _lend(self, reply: Reply[Run | None]) -> None:
        """Hand over the first lane job whose request is still there. Where the slot has failed, the job ends."""
        job: Run | None = None
        while job is None and (key := self._waiters.next_job()) is not None:
            entered = self._entered.pop(key)
            if entered.reply.send(Lent(0, self._slots[0])):
                job = entered.lane
        if not reply.send(job) and job is not None:
            job.outbox.finish()

    def _refuse(self, keys: Iterable[str], code: str) -> None:
        for key in keys:
            self._entered.pop(key).reply.send(Refused(code))

    def _tell_of_lane(self) -> None:
        if self._waiters.in_lane and 0 in self._slots:
            self._slots[0].offer(LaneWaiting())

    def _report(self) -> None:
        waiters = self._waiters
        self._tell_windows(waiters.is_idle)
        seen = QueueSeen(
            waiting=waiters.waiting,
            running=waiters.running,
            draining=waiters.draining,
            line=waiters.order(SHOWN_LINE),
            lane=waiters.in_lane,
        )
        if seen == self._reported:
            return
        if self._watchdog.offer(seen) and (self._live is None or self._live.offer(seen)):
            self._reported = seen

    def _tell_of_waits(self, now: float) -> None:
        waiters = self._waiters
        if self._live is None or (now < self._tell_at and self._told.is_of(waiters.order(TOLD), waiters.lane)):
            return
        told = WaitsSeen(waiters.places(TOLD, now), waiters.lane)
        if told != self._told and self._live.offer(told):
            self._told, self._tell_at = told, now + TELL_EVERY_S

    def _tell_windows(self, idle: bool) -> None:
        if self._windows is not None and idle != self._told_idle and self._windows.offer(Idle() if idle else Arrived()):
            self._told_idle = idle

    def __repr__(self) -> str:
        return f"<Queue {self._waiters!r}>"
