"""One completion request's way through queue and slot, as events its handler can show (SCH-008).

Owns: the request's place in the queue, its grant, its outbox, and every timer between arrival and end: the queue's
limits, the waiting comment, the prefill heartbeat, the ping. Knows nothing of JSON or of HTTP.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import trio

from tandem.actors.kit import ActorGone, Ref, Reply
from tandem.actors.line import Rank
from tandem.actors.outbox import Deltas, Item, NoMemory, Outbox, PrefillProgress
from tandem.actors.queue import Enter, Granted, Leave, QueueMessage, Refused, SlotFree, Where
from tandem.actors.slots import Cancel, Run, SlotMessage
from tandem.engine.decoding.tally import Progress
from tandem.engine.text.reading.deltas import Finish
from tandem.http.openai import errors

if TYPE_CHECKING:
    from tandem.engine.decoding.generation import Generation

__all__ = ["End", "Event", "Exchange", "Limits", "Output", "Prefilling", "Silence", "Waiting"]

COMMENT_S = 10.0
"""A queued stream is told where it stands, and a silent one gets a ping, this often (API-142, API-260)."""
PREFILL_EVERY_S = 1.0
MAX_BATCHES_A_WRITE = 64
REFUSALS: dict[str, Callable[[], errors.ApiError]] = {
    "queue_full": errors.queue_full,
    "queue_timeout": errors.queue_timeout,
    "draining": errors.draining,
}
LEAVE_S = 60.0
"""How long a leaving request waits for its slot's next safe point before it goes without knowing its counts."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Still queued: position (1 is next) and seconds since arrival."""

    position: int
    waited_s: float


@dataclass(frozen=True, slots=True)
class Prefilling:
    """Prompt rows read so far, and all; the image that is read next, and of how many."""

    done: int
    total: int
    image: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing has gone to the client for a while."""


@dataclass(frozen=True, slots=True)
class Output:
    """Batches in the order they were made; what they hold goes out in one write."""

    batches: list[Deltas]


@dataclass(frozen=True, slots=True)
class End:
    """The slot has finished with the request."""


Event: TypeAlias = Waiting | Prefilling | Silence | Output | End


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds."""

    queue_timeout: float
    request_timeout: float
    prefill_heartbeat: float


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
        limits: Limits,
        stream: bool,
        arrived_at: float,
        rank: Rank = Rank.TURN,
    ) -> None:
        self._id = request_id
        self._generations = generations
        self._left = len(generations)
        self._queue = queue
        self._outbox = outbox
        self._limits = limits
        self._stream = stream
        self._arrived_at = arrived_at
        self._rank = rank
        self._state = _State.NEW
        self._reply = Reply[Granted | Refused]()
        self._slot: Ref[SlotMessage] | None = None
        self._comment_at = arrived_at + COMMENT_S if stream else float("inf")
        self._running_since = 0.0
        self._told_at = arrived_at
        self.slot: int | None = None
        """Index of the slot that was granted."""

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
        first, *others = [generation.progress for generation in self._generations]
        if not others:
            return first
        now = self._generations[self.choice].progress
        return replace(
            first,
            completion=sum(each.completion for each in (first, *others)),
            reasoning=sum(each.reasoning for each in (first, *others)),
            rounds=sum(each.rounds for each in (first, *others)),
            drafted=sum(each.drafted for each in (first, *others)),
            draft_accepted=sum(each.draft_accepted for each in (first, *others)),
            in_reasoning=now.in_reasoning,
            in_call=now.in_call,
            last_at=now.last_at or first.last_at,
        )

    async def next(self) -> Event:
        """The next event. Raises `ApiError` when the request is refused."""
        if self._state is _State.NEW:
            self._state = _State.WAITING
            await self._queue.tell(Enter(self._id, self._rank, self._reply))
        while self._state is _State.WAITING:
            event = await self._wait()
            if event is not None:
                return self._told(event)
        return self._told(await self._run())

    async def _wait(self) -> Waiting | None:
        """Wait for the grant, the next comment or the limit; None once the state has changed."""
        limit = self._limits.request_timeout if self._stream else self._limits.queue_timeout
        deadline = self._arrived_at + limit
        answer: Granted | Refused | None = None
        with trio.move_on_at(min(deadline, self._comment_at)):
            answer = await self._reply.wait()
        match answer:
            case Granted():
                await self._start(answer)
                return None
            case Refused(code):
                self._state = _State.ENDED
                raise REFUSALS[code]()
            case None:
                pass
        if trio.current_time() >= deadline:
            await self._leave()
            raise errors.queue_timeout()
        self._comment_at += COMMENT_S
        position: int | None = await self._queue.ask(lambda reply: Where(self._id, reply))
        return None if position is None else Waiting(position, trio.current_time() - self._arrived_at)

    async def _start(self, granted: Granted) -> None:
        self._state = _State.GRANTED
        self.slot, self._slot = granted.slot, granted.ref
        self._running_since = trio.current_time()
        run = Run(self._id, self._generations, self._outbox, self._limits.request_timeout)
        await granted.ref.tell(run)
        self._state = _State.RUNNING

    async def _run(self) -> Event:
        while self._state is _State.RUNNING:
            item: Item | None = None
            with trio.move_on_at(self._told_at + COMMENT_S) as silence:
                item = await self._outbox.take()
            match item:
                case Deltas():
                    output = Output(self._all_there_are(item))
                    self._count_ends(output)
                    return output
                case PrefillProgress(done, total, image):
                    if self._is_heartbeat_due():
                        return Prefilling(done, total, image)
                case NoMemory(retry_after):
                    self._state = _State.ENDED
                    raise errors.memory(retry_after)
                case None if silence.cancelled_caught:
                    return Silence()
                case None:
                    self._state = _State.ENDED
        return End()

    def _all_there_are(self, first: Deltas) -> list[Deltas]:
        batches = [first]
        while len(batches) < MAX_BATCHES_A_WRITE and (item := self._outbox.take_nowait()) is not None:
            if isinstance(item, Deltas):
                batches.append(item)
        return batches

    def _count_ends(self, output: Output) -> None:
        """With the last choice's end the slot has nothing more for us."""
        self._left -= sum(isinstance(batch.deltas[-1], Finish) for batch in output.batches)
        if self._left == 0:
            self._state = _State.ENDED

    def _is_heartbeat_due(self) -> bool:
        now = trio.current_time()
        heartbeat = self._limits.prefill_heartbeat
        return heartbeat > 0 and now - self._running_since >= heartbeat and now - self._told_at >= PREFILL_EVERY_S

    def _told(self, event: Event) -> Event:
        self._told_at = trio.current_time()
        return event

    async def aclose(self) -> tuple[Finish, ...]:
        """Leave the queue or stop the slot at its next safe point; how the choices ended where the slot can tell."""
        finishes: tuple[Finish, ...] = ()
        with trio.move_on_after(LEAVE_S, shield=True):  # bounded by one verb, and by LEAVE_S
            try:
                if self._state is _State.WAITING:
                    await self._leave()
                elif self._state is _State.GRANTED and self.slot is not None:
                    await self._queue.tell(SlotFree(self.slot))
                elif self._state is _State.RUNNING and self._slot is not None:
                    finishes = await self._slot.ask(lambda reply: Cancel(self._id, reply))
            except ActorGone:
                pass
        self._state = _State.ENDED
        self._reply.close()
        return finishes

    async def _leave(self) -> None:
        """Out of the queue; a grant that came meanwhile is given back."""
        self._state = _State.ENDED
        await self._queue.ask(lambda reply: Leave(self._id, reply))
        granted = self._reply.take_nowait()
        if isinstance(granted, Granted):
            await self._queue.tell(SlotFree(granted.slot))
