"""One completion request's way through queue and slot, as events its handler can show (SCH-008).

Owns: the request's place in the queue, its grant, its outbox, and every timer between arrival and end: the queue's
limits, the waiting comment, the prefill heartbeat, the ping. Knows nothing of JSON or of HTTP.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

import trio

from tandem.actors.kit import ActorGone, Ref, Reply
from tandem.actors.outbox import (
    Deltas,
    Item,
    Kept,
    LaneEnded,
    LaneServed,
    MemoryWait,
    NoMemory,
    Outbox,
    PrefillProgress,
)
from tandem.actors.queue import Enter, Granted, Leave, Lent, Place, QueueMessage, Refused, SlotFree, Where
from tandem.actors.slots import Cancel, Run, SlotMessage
from tandem.engine.decoding.tally import Progress, together
from tandem.engine.text.reading.deltas import Finish
from tandem.http.ahead import Ahead
from tandem.http.entry import Entry, Limits
from tandem.http.events import Course, End, Event, Output, Prefilling, Silence, Waiting
from tandem.http.openai import errors
from tandem.http.pacing import Pacing

if TYPE_CHECKING:
    from tandem.engine.decoding.generation import Generation

__all__ = ["Exchange"]

MAX_BATCHES_A_WRITE = 64
REFUSALS: dict[str, Callable[[], errors.ApiError]] = {
    "queue_full": errors.queue_full,
    "queue_timeout": errors.queue_timeout,
    "draining": errors.draining,
}
LEAVE_S = 60.0
"""How long a leaving request waits for its slot's next safe point before it goes without knowing its counts."""


class _State(enum.Enum):
    NEW = enum.auto()
    WAITING = enum.auto()
    GRANTED = enum.auto()
    """A slot is ours and does not know of it yet."""
    RUNNING = enum.auto()
    ENDED = enum.auto()


class Exchange:
    """Ask for `next()` until it gives `End`; whatever happens, `aclose()` leaves nothing of the request behind."""

    def __init__(
        self,
        request_id: str,
        generations: tuple[Generation, ...],
        *,
        queue: Ref[QueueMessage],
        outbox: Outbox,
        entry: Entry,
        limits: Limits,
        stream: bool,
        arrived_at: float,
        ahead: Ahead | None = None,
    ) -> None:
        """With `ahead` the generations come of it, under the grant."""
        self._id = request_id
        self._ahead = ahead
        self._generations = generations if ahead is None else (ahead.first,)
        self._left = len(generations)
        self._queue = queue
        self._outbox = outbox
        self._limits = limits
        self._arrived_at = arrived_at
        self._entry = entry
        self._state = _State.NEW
        self._reply = Reply[Granted | Refused | Lent]()
        self._slot: Ref[SlotMessage] | None = None
        self._pacing = Pacing(arrived_at, limits, stream=stream)
        self._granted_at = 0.0
        self._is_guest = False
        self.course = Course()

    @property
    def is_over(self) -> bool:
        """Whether it was answered or refused; its last pieces may still be on their way."""
        return self._state is _State.ENDED

    @property
    def choice(self) -> int:
        """Index of the choice that is written."""
        running = (index for index, generation in enumerate(self._generations) if generation.finish is None)
        return next(running, len(self._generations) - 1)

    @property
    def progress(self) -> Progress:
        """How far all choices together are: the prompt is read once, what they write adds up."""
        return together([generation.progress for generation in self._generations], self.choice)

    async def next(self) -> Event:
        """The next event. Raises `ApiError` when the request is refused."""
        if self._state is _State.NEW:
            self._state = _State.WAITING
            await self._queue.tell(self._enter())
        while self._state is _State.WAITING:
            event = await self._wait()
            if event is not None:
                return self._told(event)
        return self._told(await self._run())

    async def _wait(self) -> Event | None:
        """Wait for the grant, the next comment or the limit; None where there is nothing to tell."""
        deadline = self._arrived_at + self._entry.wait_s
        answer: Granted | Refused | Lent | None = None
        with trio.move_on_at(min(deadline, self._pacing.wakes_at)):
            answer = await self._reply.wait()
        if answer is None and trio.current_time() >= deadline:
            with trio.move_on_after(LEAVE_S, shield=True):  # what came meanwhile must go back, by one verb at most
                await self._leave()
            raise errors.queue_timeout()
        is_due = False
        if answer is None:
            is_due = self._pacing.woken(trio.current_time())
            place: Place | None = await self._queue.ask(lambda reply: Where(self._id, reply))
            if place is not None:
                return Waiting(
                    position=place.position,
                    waited_s=trio.current_time() - self._arrived_at,
                    reason=place.reason,
                    estimate_s=place.estimate_s,
                    is_due=is_due,
                )
            answer = self._reply.take_nowait()  # the queue's answer came before it said that nobody waits
        if answer is None:
            return Silence() if is_due else None
        await self._answered(answer)
        return None

    def _enter(self) -> Enter:
        entry = self._entry
        lane = self._job() if entry.is_lane else None
        return Enter(self._id, entry.rank, self._reply, entry.needs, lane)

    def _job(self, *, guest: bool = False) -> Run:
        limit, keeps = self._limits.request_timeout, self._ahead is not None
        return Run(self._id, self._generations, self._outbox, limit, guest, keeps)

    async def _answered(self, answer: Granted | Refused | Lent) -> None:
        """The queue has decided."""
        match answer:
            case Refused(code):
                self._state = _State.ENDED
                raise REFUSALS[code]()
            case Granted(slot, ref, guest, wait_own_s):
                self._state = _State.GRANTED
                self.course.slot, self.course.wait_own_s = slot, wait_own_s
                self._is_guest = guest or (self._entry.is_guest and slot == 0)
                await ref.tell(self._job(guest=self._is_guest))
            case Lent(slot, ref):  # the slot has the job already
                self.course.slot = slot
            case _:
                assert_never(answer)
        self._slot = ref
        self._granted_at = self._pacing.running_since = trio.current_time()
        self._state = _State.RUNNING

    async def _go_on(self, slot: Ref[SlotMessage], ahead: Ahead) -> Output | None:
        """What ran ahead has ended. What follows has the rest of the request's time; an answer gives the slot back."""
        self._state, self._ahead = _State.GRANTED, None
        self.course.missing = 0
        follows = await ahead.then()
        if isinstance(follows, Output):
            self._state = _State.ENDED
            if self.course.slot is not None:
                await self._queue.tell(SlotFree(self.course.slot))
            return follows
        self._generations = follows
        self._left = len(self._generations)
        left = self._granted_at + self._limits.request_timeout - trio.current_time()
        await slot.tell(Run(self._id, self._generations, self._outbox, max(left, 0.0), self._is_guest))
        self._state = _State.RUNNING
        return None

    async def _run(self) -> Event:
        while self._state is _State.RUNNING:
            item: Item | None = None
            with trio.move_on_at(self._pacing.silent_at(waits=self.course.missing > 0)) as silence:
                item = await self._outbox.take()
            match item:
                case Kept() if self._slot is not None and self._ahead is not None:
                    if (answer := await self._go_on(self._slot, self._ahead)) is not None:
                        return answer
                case Kept():
                    raise RuntimeError("a slot was kept for nothing")
                case Deltas() | NoMemory() if self._ahead is not None:
                    pass  # what ran ahead has no reader
                case Deltas():
                    output = Output(self._all_there_are(item))
                    self._count_ends(output)
                    return output
                case PrefillProgress(done, total, image):
                    is_due = self._pacing.is_heartbeat_due(trio.current_time())
                    if is_due or self._pacing.looks:
                        most = total if self._ahead is None else self._ahead.rows
                        return Prefilling(min(done, most), most, image, is_due, for_turn=self._ahead is None)
                case MemoryWait(missing, _):
                    self.course.note(item)
                    if not missing:  # reading the prompt begins
                        self._pacing.running_since = trio.current_time()
                case LaneServed() | LaneEnded():
                    self.course.note(item)
                case NoMemory(retry_after):
                    self._state = _State.ENDED
                    raise errors.memory(retry_after, to_read=True)
                case None if silence.cancelled_caught:
                    return self._stillness()
                case None:
                    self._state = _State.ENDED
        return End()

    def _all_there_are(self, first: Deltas) -> list[Deltas]:
        batches = [first]
        while len(batches) < MAX_BATCHES_A_WRITE and (item := self._outbox.take_nowait()) is not None:
            if isinstance(item, Deltas):
                batches.append(item)
            else:
                self.course.note(item)
        return batches

    def _stillness(self) -> Event:
        """Why nothing comes. Who waits for memory has a slot, and stands behind others who wait for it (SCH-073)."""
        is_due, missing = self._pacing.silent(trio.current_time()), self.course.missing
        if not missing:
            return Silence()
        waited_s = trio.current_time() - self._arrived_at
        return Waiting(
            position=self.course.position, waited_s=waited_s, reason="memory", missing=missing, is_due=is_due
        )

    def _count_ends(self, output: Output) -> None:
        """With the last choice's end the slot has nothing more for us."""
        self._left -= sum(isinstance(batch.deltas[-1], Finish) for batch in output.batches)
        if self._left == 0:
            self._state = _State.ENDED

    def _told(self, event: Event) -> Event:
        self._pacing.told(event, trio.current_time())
        return event

    async def aclose(self) -> tuple[Finish, ...]:
        """Leave the queue or stop the slot at its next safe point; how the choices ended where the slot can tell."""
        finishes: tuple[Finish, ...] = ()
        with trio.move_on_after(LEAVE_S, shield=True):  # bounded by one verb, and by LEAVE_S
            try:
                match self._state:
                    case _State.WAITING:
                        finishes = await self._leave()
                    case _State.GRANTED if self.course.slot is not None:
                        await self._queue.tell(SlotFree(self.course.slot))
                    case _State.RUNNING if self._slot is not None:
                        finishes = await self._slot.ask(lambda reply: Cancel(self._id, reply))
                        finishes = () if self._ahead is not None else finishes
                    case _:
                        pass
            except ActorGone:
                pass
            await self._note_rest()
        self._state = _State.ENDED
        self._reply.close()
        return finishes

    async def _leave(self) -> tuple[Finish, ...]:
        """Out of the queue; a grant that came meanwhile is given back, and a lane that was lent is left."""
        self._state = _State.ENDED
        await self._queue.ask(lambda reply: Leave(self._id, reply))
        match self._reply.take_nowait():
            case Granted(slot):
                await self._queue.tell(SlotFree(slot))
            case Lent(slot, ref):
                self.course.slot = slot
                return await ref.ask(lambda reply: Cancel(self._id, reply))
            case _:
                pass
        return ()

    async def _note_rest(self) -> None:
        """What stands in the outbox for the row; of a lane guest the holder's delay comes after its last token."""
        while (item := self._outbox.take_nowait()) is not None:
            self.course.note(item)
            if isinstance(item, Kept) and self._ahead is not None and self.course.slot is not None:
                await self._queue.tell(SlotFree(self.course.slot))
        while self.course.is_lent and (item := await self._outbox.take()) is not None:
            self.course.note(item)
