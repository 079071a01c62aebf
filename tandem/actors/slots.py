"""A slot: one sequence of the engine and the request that runs on it.

Owns: its sequence, the request in hand and the guest it lends to, its phase. Works only while it holds the GPU turn,
and never waits for a client: deltas go into the request's outbox without waiting. A message marks the request; what
serves it looks at the marks at every safe point. Slot 0 alone lends its engine, and says what a next turn would resume
from. A side slot that cannot be put right after a fault ends without the service (SCH-056).

| message in    | from         | answer or effect                                                        |
|---------------|--------------|-------------------------------------------------------------------------|
| `Run`         | request task | the request's generations run, deltas go to its outbox, which then ends |
| `Cancel`      | request task | the request ends at the next safe point; answered with its finishes     |
| `LaneWaiting` | queue        | a lane job is taken at a safe point, where one allows it                |
| `Abort`       | service      | whatever runs ends at the next safe point with an error                 |
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import trio

from tandem.actors.admission import Admission
from tandem.actors.hand import Hand
from tandem.actors.host import EngineHost
from tandem.actors.job import Job
from tandem.actors.keeper import Busy, KeeperMessage, Rested
from tandem.actors.kit import Actor, Ref, Reply
from tandem.actors.lending import Lane, LaneRules, Lender
from tandem.actors.memory import MemoryMessage
from tandem.actors.outbox import Outbox
from tandem.actors.queue import LaneWaiting, QueueMessage, Resident, SlotFree, SlotGone, SlotProgress
from tandem.actors.serving import Means, Serving
from tandem.actors.turns import TurnMessage
from tandem.actors.watchdog import Phase, SlotSeen, WatchdogMessage
from tandem.engine.decoding.generation import Generation
from tandem.engine.errors import EngineError
from tandem.engine.text.reading.deltas import Finish
from tandem.engine.verbs import Engine

__all__ = ["Abort", "Cancel", "Run", "Slot", "SlotMessage"]

log = logging.getLogger(__name__)

REPORT_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """`generations` are the choices of one request over one prompt: the first reads it, the others resume from there.

    `timeout_s` is how long the request may run from here on, all choices together. A `guest` borrows the engine: what
    slot 0 holds is there again afterwards (SCH-043). One that `keeps` is the first of two under one grant (SCH-025):
    unless somebody has ended it, `Kept` comes instead of the outbox's end, and `Run` or a `SlotFree` must follow.
    """

    request_id: str
    generations: tuple[Generation, ...]
    outbox: Outbox
    timeout_s: float
    guest: bool = False
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    request_id: str
    reply: Reply[tuple[Finish, ...]]
    """How each choice ended: `abandoned`, unless it had ended before."""


@dataclass(frozen=True, slots=True)
class Abort:
    reason: str


SlotMessage: TypeAlias = Run | Cancel | Abort | LaneWaiting

ALONE = LaneRules("off")


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
        memory: Ref[MemoryMessage] | None = None,
        first: Engine[Any, Any] | None = None,
        lender: Lender | None = None,
        lane: LaneRules = ALONE,
        settles: bool = True,
        timed: bool = False,
        queue_timeout_s: float = 240.0,
    ) -> None:
        """`first` is slot 0's engine where there are several slots; `lender` is this one's, where it may be lent."""
        super().__init__(f"slot {index}")
        self._index = index
        self._engine = engine
        self._queue = queue
        self._watchdog = watchdog
        self._keeper = keeper
        hand = Hand(
            index,
            engine,
            host,
            turns,
            is_leaving=self._is_leaving,
            first=first,
            settles=settles,
            timed=timed,
        )
        self._lane = None if lender is None else Lane(lane, lender, hand, queue, self._begin_guest, self._end_guest)
        admission = Admission(index, engine, memory, queue_timeout_s, self._tell)
        self._means = Means(engine, host, hand, admission, self._tell, self._lane)
        self._job: Job | None = None
        self._guest: Job | None = None
        self._ended: dict[str, tuple[str, tuple[Finish, ...]]] = {}
        """The last request and the last guest: how each choice ended."""
        self._is_kept = False
        """Between the two runs of a request."""
        self._abort: str | None = None
        """Ends the second one, which came later."""
        self._phase: Phase = "idle"
        self._reported_at = 0.0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            async with trio.open_nursery() as nursery:
                async for message in self.inbox:
                    match message:
                        case Run() if self._job is None:
                            self._job = self._begin(message)
                            nursery.start_soon(self._serve, self._job, nursery.cancel_scope)
                        case Run():
                            raise RuntimeError(f"{self.ref.name} was granted twice")
                        case Cancel(request_id, reply):
                            self._cancel(request_id, reply)
                        case Abort(reason):
                            for job in self._jobs():
                                job.end_by(abort=reason)
                            self._abort = reason if self._is_kept else None
                        case LaneWaiting():
                            if self._lane is not None:
                                self._lane.is_wanted = True
                        case _:
                            assert_never(message)
                    await self._means.hand.look_again()
        except Exception:
            self._queue.offer(SlotGone(self._index))  # a queue without room for it has ended itself
            raise

    def _begin(self, run: Run) -> Job:
        job = Job(run, trio.current_time() + run.timeout_s)
        if self._abort is not None:
            job.end_by(abort=self._abort)
        self._is_kept, self._abort = False, None
        return job

    def _jobs(self) -> list[Job]:
        return [job for job in (self._job, self._guest) if job is not None]

    def _cancel(self, request_id: str, reply: Reply[tuple[Finish, ...]]) -> None:
        for job in self._jobs():
            if job.run.request_id == request_id:
                job.end_by(cancel=reply)
                return
        reply.send(next((finishes for key, finishes in self._ended.values() if key == request_id), ()))

    def _is_leaving(self) -> bool:
        return any(job.is_leaving for job in self._jobs())

    async def _serve(self, job: Job, all_of_it: trio.CancelScope) -> None:
        """Run a request, then give back in the order of SCH-079: the turn, the slot, the stream."""
        run, serving, is_kept = job.run, Serving(job, self._means), False
        self._report("prefilling", job)
        self._tell_keeper(Busy(self._index))
        try:
            await serving.run()
            self._job = None
            self._ended["request"] = run.request_id, tuple(job.finishes)
            self._report("gone" if serving.is_broken else "idle", None)
            self._tell_keeper(Rested(self._index))
            if serving.is_broken and self._index == 0:
                raise EngineError("slot 0 could not be put right")
            self._is_kept = is_kept = run.keeps and not serving.is_broken and job.is_kept()
            if not is_kept:
                await self._queue.tell(SlotGone(self._index) if serving.is_broken else self._free(job))
        finally:
            if not is_kept:
                run.outbox.finish()
        job.answer()
        if serving.is_broken:
            log.error("[engine] %s is out of service", self.ref.name)
            all_of_it.cancel()

    def _free(self, job: Job) -> SlotFree:
        """Slot 0 says what it could go on with (SCH-051): no side slot, and no guest, takes the next turn of that. How
        much was written teaches the estimates where the request came to its own end (SCH-034)."""
        whole = all(finish.reason in ("stop", "length", "tool_calls") for finish in job.finishes)
        end = progress_of(self._index, job.current, trio.current_time()) if whole else None
        resident = None if self._index else Resident(*self._engine.resident())
        return SlotFree(self._index, resident, end)

    def _begin_guest(self, run: Run) -> tuple[Job, Serving]:
        self._guest = Job(run, deadline=trio.current_time() + run.timeout_s)
        return self._guest, Serving(self._guest, self._means)

    def _end_guest(self, job: Job) -> None:
        self._guest = None
        self._ended["guest"] = job.run.request_id, tuple(job.finishes)
        job.run.outbox.finish()
        job.answer()

    def _tell_keeper(self, message: Busy | Rested) -> None:
        if self._keeper is not None:
            self._keeper.offer(message)

    def _tell(self, job: Job, phase: Phase) -> None:
        """A piece of work is done; a guest's counts for its holder."""
        if job is self._guest and self._job is not None:
            phase, job = self._phase, self._job
        self._report(phase, job)

    def _report(self, phase: Phase, job: Job | None) -> None:
        """Tell the watchdog of every change of phase, and of a safe point once a second; then the queue, how far."""
        now = trio.current_time()
        if phase == self._phase and now - self._reported_at < REPORT_EVERY_S:
            return
        self._phase, self._reported_at = phase, now
        self._watchdog.offer(SlotSeen(self._index, phase, job.run.request_id if job else None))
        if job is not None:
            self._queue.offer(progress_of(self._index, job.current, now))


def progress_of(slot: int, generation: Generation, now: float) -> SlotProgress:
    """How far a generation is, with the rates that it has shown (SCH-033)."""
    progress = generation.progress
    started = now if progress.started_at is None else progress.started_at
    first = now if progress.first_at is None else progress.first_at
    last = first if progress.last_at is None else progress.last_at
    read, prefill_s, decode_s = progress.read - progress.resumed, first - started, last - first
    return SlotProgress(
        slot=slot,
        rows_left=progress.rows - progress.read,
        prefill_rate=read / prefill_s if read > 0 and prefill_s > 0 else None,
        written=progress.completion,
        limit=generation.limit,
        thinks=progress.in_reasoning or progress.reasoning > 0,
        decode_rate=(progress.completion - 1) / decode_s if progress.completion > 1 and decode_s > 0 else None,
    )
