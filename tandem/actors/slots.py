"""A slot: one sequence of the engine and the request that runs on it.

Owns: its sequence, the request in hand, its phase. Works only while it holds the GPU turn, looks for `Cancel` at every
safe point, and never waits for a client: deltas go into the request's outbox without waiting.

| message in | from         | answer or effect                                                        |
|------------|--------------|-------------------------------------------------------------------------|
| `Run`      | request task | the request's generations run, deltas go to its outbox, which then ends |
| `Cancel`   | request task | the request ends at the next safe point; answered with its finishes     |
| `Abort`    | service      | whatever runs ends at the next safe point with an error                 |
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, assert_never

import trio

from tandem.actors.host import EngineHost
from tandem.actors.keeper import Busy, KeeperMessage, Rested
from tandem.actors.kit import Actor, ActorGone, Ref, Reply
from tandem.actors.outbox import Deltas, NoMemory, Outbox, PrefillProgress
from tandem.actors.queue import QueueMessage, SlotFree, SlotGone
from tandem.actors.turns import GiveUp, Turn, TurnMessage, Want
from tandem.actors.watchdog import Phase, SlotSeen, WatchdogMessage
from tandem.engine.caches.caching import MemoryRefused
from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.work import Ended, Prefill, Work, perform
from tandem.engine.errors import EngineError
from tandem.engine.text.reading.deltas import Finish
from tandem.engine.verbs import Engine, Prefilled

__all__ = ["Abort", "Cancel", "Run", "Slot", "SlotMessage"]

log = logging.getLogger(__name__)

REPORT_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """`generations` are the choices of one request over one prompt: the first reads it, the others resume from there.

    `timeout_s` is how long the request may run from here on, all choices together.
    """

    request_id: str
    generations: tuple[Generation, ...]
    outbox: Outbox
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Cancel:
    request_id: str
    reply: Reply[tuple[Finish, ...]]
    """How each choice ended: `abandoned`, unless it had ended before."""


@dataclass(frozen=True, slots=True)
class Abort:
    reason: str


SlotMessage: TypeAlias = Run | Cancel | Abort


@dataclass(slots=True)
class _Job:
    """The request in hand."""

    run: Run
    deadline: float
    turn: Turn
    cancels: list[Reply[tuple[Finish, ...]]] = field(default_factory=list)
    finishes: list[Finish] = field(default_factory=list)
    abort: str | None = None
    client_gone: bool = False


class Slot(Actor[SlotMessage]):
    name = "slot"

    def __init__(
        self,
        index: int,
        *,
        engine: Engine[Any, Any],
        host: EngineHost,
        turns: Ref[TurnMessage],
        queue: Ref[QueueMessage],
        watchdog: Ref[WatchdogMessage],
        keeper: Ref[KeeperMessage] | None = None,
    ) -> None:
        super().__init__(f"slot {index}")
        self._index = index
        self._engine = engine
        self._host = host
        self._turns = turns
        self._queue = queue
        self._watchdog = watchdog
        self._keeper = keeper
        self._last: tuple[str, tuple[Finish, ...]] = ("", ())
        self._phase: Phase = "idle"
        self._reported_at = 0.0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            async for message in self.inbox:
                match message:
                    case Run():
                        await self._serve(message)
                    case Cancel(request_id, reply):
                        self._answer_late(request_id, reply)
                    case Abort():
                        pass  # nothing runs
                    case _:
                        assert_never(message)
        except Exception:
            self._queue.offer(SlotGone(self._index))  # a queue without room for it has ended itself
            raise

    async def _serve(self, run: Run) -> None:
        """Run a request, then give back in the order of SCH-079: the turn, the slot, the stream."""
        job = _Job(run, deadline=trio.current_time() + run.timeout_s, turn=Turn(self._index))
        self._report("prefilling", job)
        self._tell_keeper(Busy(self._index))
        try:
            try:
                await self._with_turn(job)
            except MemoryRefused as refused:
                # The one line of OBS-044.
                log.error("[memory] %s: %s", run.request_id, refused)
                run.outbox.put(NoMemory(refused.retry_after), trio.current_time())
                self._end_rest(job, "error", str(refused))
            except EngineError as error:
                log.error("[engine] request %s ends: %s", run.request_id, error)
                self._end_rest(job, "error", str(error))
            self._last = (run.request_id, tuple(job.finishes))
            self._report("idle", None)
            self._tell_keeper(Rested(self._index))
            await self._queue.tell(SlotFree(self._index))
        finally:
            run.outbox.finish()
        for reply in job.cancels:
            reply.send(self._last[1])

    async def _with_turn(self, job: _Job) -> None:
        generations = job.run.generations
        generations[0].start(trio.current_time())
        seq: Any = None
        try:
            job.turn = await self._turns.ask(lambda reply: Want(self._index, reply))
            seq = await self._host.run_verb(partial(self._engine.open, generations[0].prompt))
            await self._generate_all(job, seq)
        finally:
            with trio.CancelScope(shield=True):  # bounded by one verb and one message
                await self._let_go(seq)

    async def _let_go(self, seq: Any) -> None:
        """Close the sequence, where there is one, and give up the turn, whether it has come yet or not."""
        if seq is not None:
            try:
                await self._host.run_verb(partial(self._engine.close, seq))
            except (EngineError, ActorGone) as error:
                log.error("[engine] %s could not close its sequence: %s", self.ref.name, error)
        with suppress(ActorGone):  # at the service's end the scheduler may be the first to go
            await self._turns.tell(GiveUp(self._index))

    async def _generate_all(self, job: _Job, seq: Any) -> None:
        """The first choice reads the prompt; each further one resumes from the snapshot taken there (ENG-083)."""
        first, *others = job.run.generations
        while isinstance(work := first.next(), Prefill):
            await self._step(job, seq, first, work)
        snapshot: object = None
        if others and first.finish is None:
            snapshot = await self._host.run_verb(partial(self._engine.snapshot, seq))
        await self._write(job, seq, first)
        for generation in others:
            match job.finishes[-1]:
                case Finish("error" | "timeout" | "abandoned" as reason, detail=detail):
                    self._end_rest(job, reason, detail)
                    return
                case _:
                    pass
            await self._host.run_verb(partial(self._engine.restore, seq, snapshot))
            now = trio.current_time()
            generation.start(now)
            generation.skip_prefill(first.prefilled, now)
            await self._write(job, seq, generation)

    async def _write(self, job: _Job, seq: Any, generation: Generation) -> None:
        while not isinstance(work := generation.next(), Ended):
            await self._step(job, seq, generation, work)
        self._hand_out(job, generation)

    async def _step(self, job: _Job, seq: Any, generation: Generation, work: Work) -> None:
        """One safe point and one piece of work, or the end of the generation instead."""
        if job.turn.recalled.is_set():
            await self._turns.tell(GiveUp(self._index))
            job.turn = await self._turns.ask(lambda reply: Want(self._index, reply))
        if self._is_over(job, generation):
            return
        result = await self._host.run_verb(partial(perform, self._engine, seq, work, generation.rules))
        now = trio.current_time()
        generation.feed(result, now)
        if isinstance(result, Prefilled):
            told = PrefillProgress(result.done, result.total, generation.next_image)
            job.client_gone |= not job.run.outbox.put(told, now)
        self._hand_out(job, generation)
        self._report("prefilling" if isinstance(result, Prefilled) else "writing", job)

    def _is_over(self, job: _Job, generation: Generation) -> bool:
        """Look for what ends the request at this safe point, and end it."""
        now = trio.current_time()
        while (message := self.inbox.receive_nowait()) is not None:
            match message:
                case Cancel(request_id, reply) if request_id == job.run.request_id:
                    job.cancels.append(reply)
                case Cancel(request_id, reply):
                    self._answer_late(request_id, reply)
                case Abort(reason):
                    job.abort = reason
                case Run():
                    raise RuntimeError(f"{self.ref.name} was granted twice")
                case _:
                    assert_never(message)
        if job.cancels or job.client_gone:
            generation.stop("abandoned", now)
        elif job.abort is not None:
            generation.stop("error", now, job.abort)
        elif now >= job.deadline:
            generation.stop("timeout", now)
        else:
            return False
        return True

    def _hand_out(self, job: _Job, generation: Generation) -> None:
        deltas = generation.take_deltas()
        if not deltas:
            return
        choice = len(job.finishes)
        job.finishes.extend(delta for delta in deltas if isinstance(delta, Finish))
        job.client_gone |= not job.run.outbox.put(Deltas(choice, deltas), trio.current_time())

    def _end_rest(self, job: _Job, reason: Literal["error", "timeout", "abandoned"], detail: str | None) -> None:
        """End the choice in hand and those that would have come; what was handed out stands."""
        for generation in job.run.generations[len(job.finishes) :]:
            generation.stop(reason, trio.current_time(), detail)
            self._hand_out(job, generation)

    def _answer_late(self, request_id: str, reply: Reply[tuple[Finish, ...]]) -> None:
        ended, finishes = self._last
        reply.send(finishes if ended == request_id else ())

    def _tell_keeper(self, message: Busy | Rested) -> None:
        if self._keeper is not None:
            self._keeper.offer(message)

    def _report(self, phase: Phase, job: _Job | None) -> None:
        """Tell the watchdog of every change of phase, and of a safe point once a second."""
        now = trio.current_time()
        if phase != self._phase or now - self._reported_at >= REPORT_EVERY_S:
            self._phase, self._reported_at = phase, now
            self._watchdog.offer(SlotSeen(self._index, phase, job.run.request_id if job else None))
