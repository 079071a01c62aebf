"""How a slot serves one request: work by work under the GPU turn, with a safe point before each (ENG-182).

No actor: a slot's own, one object a request. A guest is served the same way on an engine that is lent (ENG-134): from
the start of the sequence, one token a forward, and it meets nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import trio

from tandem.actors.admission import Admission
from tandem.actors.hand import Hand
from tandem.actors.host import EngineHost
from tandem.actors.job import Job
from tandem.actors.kit import ActorGone
from tandem.actors.lending import Lane
from tandem.actors.outbox import NoMemory, PrefillProgress
from tandem.actors.watchdog import Phase
from tandem.engine.caches.caching import MemoryRefused
from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.together import Block
from tandem.engine.decoding.work import Ended, Prefill, Result, Round, Trim, Work, perform
from tandem.engine.errors import EngineError, SlotDamaged
from tandem.engine.text.reading.deltas import Finish
from tandem.engine.text.replay import finalise
from tandem.engine.verbs import Accepted, Engine, Prefilled

__all__ = ["GUEST_MARGIN", "Means", "Serving"]

T = TypeVar("T")

log = logging.getLogger(__name__)

GUEST_MARGIN = 64
"""Rows that a guest is lent besides its prompt and its answer (ENG-134)."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a slot has to serve with. `tell` reports a safe point that has been reached."""

    engine: Engine[Any, Any]
    host: EngineHost
    hand: Hand
    admission: Admission
    tell: Callable[[Job, Phase], None]
    lane: Lane | None = None


class Serving:
    """One request; `run` or `be_guest`, once."""

    def __init__(self, job: Job, means: Means) -> None:
        self._job = job
        self._means = means
        self._is_guest = False
        self._seq: Any = None
        self._is_damaged = False
        self.is_broken = False
        """The engine's slot could not be put right: it serves no more (SCH-056)."""

    async def run(self) -> None:
        """To its end, whatever that is; then all is given back in the order of SCH-079: meeting, turn, reservation."""
        try:
            await self._ending(self._admitted)
        finally:
            with trio.CancelScope(shield=True):  # bounded by the work in hand, here or where the turn is, and messages
                await self._let_go()

    async def be_guest(self, holder: Any) -> None:
        """To its end on the engine lent by `holder`, None where no sequence is open; the turn stays in hand.

        `SlotDamaged`: what the holder has is in doubt too. All else is the guest's own.
        """
        self._is_guest = True
        await self._means.hand.take()
        await self._ending(partial(self._be_lent, holder))
        if self._is_damaged:
            raise SlotDamaged("a guest has left the slot damaged")

    async def _be_lent(self, holder: Any) -> None:
        engine, first = self._means.engine, self._job.run.generations[0]
        rows = min(len(first.prompt.ids) + first.limit + GUEST_MARGIN, engine.card.max_len)
        for generation in self._job.run.generations:
            generation.grant(first.prompt, rows)
        loan = await self._verb(partial(engine.borrow, holder, rows))
        try:
            await self._read_and_write()
        finally:
            with trio.CancelScope(shield=True):  # bounded by one verb
                try:
                    await self._verb(partial(engine.give_back, loan))
                except EngineError as error:
                    log.error("[engine] what was lent did not come back: %s", error)
                    self._is_damaged = True

    async def _ending(self, served: Callable[[], Awaitable[None]]) -> None:
        """Whatever goes wrong in the engine ends this request alone."""
        job = self._job
        try:
            await served()
        except MemoryRefused as refused:
            # The one line of OBS-044.
            log.error("[memory] %s: %s", job.run.request_id, refused)
            job.put(NoMemory(refused.retry_after))
            job.end_rest("error", str(refused))
        except EngineError as error:
            self._is_damaged |= isinstance(error, SlotDamaged)
            log.error("[engine] request %s ends: %s", job.run.request_id, error)
            job.end_rest("error", str(error))

    async def _admitted(self) -> None:
        await self._finish_prompt()
        if not await self._means.admission.admit(self._job):
            self._end_as_the_last()
        elif self._job.run.guest and self._means.lane is not None:
            await self._means.lane.serve_itself(self._job, self)
        else:
            await self._read_and_write()

    async def _finish_prompt(self) -> None:
        """Hidden tokens of its session's last answer come back where this slot holds their rows (SCH-114)."""
        engine, generations = self._means.engine, self._job.run.generations
        prompt, window = generations[0].prompt, engine.card.max_len
        if prompt.session is not None:
            prompt = await self._verb(lambda: finalise(generations[0].prompt, engine.written(), window))
        for generation in generations:
            generation.grant(prompt, window)

    async def _read_and_write(self) -> None:
        """The first choice reads the prompt; each further one resumes from the snapshot taken there (ENG-083)."""
        first, *others = self._job.run.generations
        first.start(trio.current_time())
        await self._means.hand.take()
        self._seq = await self._verb(partial(self._means.engine.open, first.prompt))
        while isinstance(work := first.next(), Prefill):
            await self._step(first, work)
        if not self._is_guest:
            await self._means.admission.release()
        snapshot: object = None
        if others and first.finish is None:
            snapshot = await self._verb(partial(self._means.engine.snapshot, self._seq))
        await self._write(first)
        for generation in others:
            if self._end_as_the_last():
                return
            await self._means.hand.take()
            await self._verb(partial(self._means.engine.restore, self._seq, snapshot))
            now = trio.current_time()
            generation.start(now)
            generation.skip_prefill(first.prefilled, now)
            await self._write(generation)

    def _end_as_the_last(self) -> bool:
        """Whether the choice before ended in a way that ends the others too; then they have."""
        job = self._job
        job.hand_out(job.current)
        match job.finishes[-1] if job.finishes else None:
            case Finish("error" | "timeout" | "abandoned" as reason, detail=detail):
                job.end_rest(reason, detail)
                return True
            case _:
                return False

    async def _write(self, generation: Generation) -> None:
        while not isinstance(work := generation.next(), Ended):
            await self._step(generation, work)
        self._job.hand_out(generation)

    async def _step(self, generation: Generation, work: Work) -> None:
        """One safe point and one piece of work, or the end of the generation instead."""
        means, job = self._means, self._job
        if job.is_over(generation):
            return
        if means.lane is not None and not self._is_guest and not isinstance(work, Trim):
            await means.lane.lend(self._seq, is_prefill=isinstance(work, Prefill))
        result: Result | None = None
        if isinstance(work, Round) and not self._is_guest:
            result = await means.hand.round(Block(means.engine, self._seq, work.limit, generation.rules))
        else:
            await means.hand.take(to_end=isinstance(work, Trim) and generation.finish is not None)
        if result is None:
            if job.is_over(generation):
                return
            result = await self._perform(work, generation)
        now = trio.current_time()
        generation.feed(result, now)
        if isinstance(result, Prefilled):
            job.put(PrefillProgress(result.done, result.total, generation.next_image))
        job.hand_out(generation)
        means.tell(job, "prefilling" if isinstance(result, Prefilled) else "writing")

    async def _perform(self, work: Work, generation: Generation) -> Result:
        if self._is_guest and isinstance(work, Round):
            work = Round(1)
        result = await self._verb(partial(perform, self._means.engine, self._seq, work, generation.rules))
        if isinstance(result, Accepted):
            self._means.hand.note_alone(result)
        return result

    async def _let_go(self) -> None:
        """Close the sequence, where there is one, and give up the turn, whether it has come yet or not."""
        means = self._means
        if self._seq is not None and not self._is_guest:
            await self._take_at_the_end()
            try:
                await self._verb(partial(means.engine.close, self._seq))
            except (EngineError, ActorGone) as error:
                log.error("[engine] a sequence could not be closed: %s", error)
                self._is_damaged |= isinstance(error, EngineError)
        if self._is_damaged:
            await self._take_at_the_end()
            try:
                await self._verb(means.engine.rebuild)
            except (EngineError, ActorGone) as error:
                log.error("[engine] a slot could not be put right: %s", error)
                self.is_broken = True
        await means.hand.give_up()
        await means.admission.gone()

    async def _take_at_the_end(self) -> None:
        with suppress(ActorGone):  # at the service's end the scheduler may be the first to go
            await self._means.hand.take(to_end=True)

    async def _verb(self, verb: Callable[[], T]) -> T:
        return await self._means.host.run_verb(verb)
