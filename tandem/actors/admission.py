"""A request's way past the memory keeper: it waits in slices of a second, with nothing in hand (SCH-071, SCH-073).

No actor: a slot's own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from tandem.actors.job import Job
from tandem.actors.kit import ActorGone, Ref
from tandem.actors.memory import Admitted, Gone, MemoryMessage, Release, Reserve, Short
from tandem.actors.outbox import MemoryWait, NoMemory
from tandem.actors.watchdog import Phase
from tandem.engine.verbs import Engine

__all__ = ["Admission"]

log = logging.getLogger(__name__)

SLICE_S = 1.0
RETRY_AFTER = 10


class Admission:
    """Of slot `slot`. Without a keeper, as with one slot, all are admitted. `tell` says that a request still moves."""

    def __init__(
        self,
        slot: int,
        engine: Engine[Any, Any],
        memory: Ref[MemoryMessage] | None,
        timeout_s: float,
        tell: Callable[[Job, Phase], None],
    ) -> None:
        self._slot = slot
        self._engine = engine
        self._memory = memory
        self._timeout_s = timeout_s
        self._tell = tell

    async def admit(self, job: Job) -> bool:
        """False: the request has ended."""
        if self._memory is None:
            return True
        first = job.run.generations[0]
        need = self._engine.worst_case(len(first.prompt.ids), first.limit)
        begun = trio.current_time()
        has_waited = False
        while True:
            answer: Admitted | Short = await self._memory.ask(partial(Reserve, self._slot, job.run.request_id, need))
            waited = trio.current_time() - begun
            if isinstance(answer, Admitted):
                if has_waited:
                    job.put(MemoryWait(0, waited))
                return True
            has_waited = True
            if waited >= self._timeout_s:
                told = f"{answer.missing} bytes short after {waited:.0f} s"
                log.error("[memory] %s: %s", job.run.request_id, told)
                job.put(NoMemory(RETRY_AFTER))
                job.end_rest("error", told)
                return False
            job.put(MemoryWait(answer.missing, waited, answer.position))
            self._tell(job, "prefilling")
            with trio.move_on_after(SLICE_S):
                await job.marked.wait()
            if job.is_over(first):
                return False

    async def release(self) -> None:
        """The prompt is read."""
        if self._memory is not None:
            await self._memory.tell(Release(self._slot))

    async def gone(self) -> None:
        """The request has ended, whatever it still held."""
        if self._memory is not None:
            with suppress(ActorGone):
                await self._memory.tell(Gone(self._slot))
