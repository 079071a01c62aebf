"""The engine host: the one awaitable boundary to the engine (ENG-171, SCH-004).

`ThreadHost` owns the one engine thread for the process's life; `InlineHost` runs the verbs of the fake engine where it
is called and spends their simulated time on trio's clock, without a thread. Whatever a verb raises comes back as an
`EngineError`, which ends one request; a verb is never interrupted.
"""

from __future__ import annotations

import logging
import queue
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import outcome
import trio

from tandem.actors.kit import Actor, ActorGone
from tandem.engine.errors import EngineError

__all__ = ["EngineHost", "InlineHost", "SimulatedTime", "ThreadHost", "as_engine_error", "open_host"]

T = TypeVar("T")

log = logging.getLogger(__name__)


class EngineHost(Protocol):
    """Runs engine verbs."""

    async def run_verb(self, verb: Callable[[], T]) -> T:
        """The verb's result. Cancelled it does not begin, or waits for the verb's end. `EngineError` for any fault."""


class SimulatedTime(Protocol):
    """An engine that only counts the time it would have taken."""

    def take_elapsed(self) -> float:
        """Seconds since the last call."""


GIVE_WAY_EVERY = 8
"""Verbs without simulated time that run on end: about a quarter of a millisecond."""


class InlineHost:
    """The host of an engine that takes no real time."""

    def __init__(self, engine: SimulatedTime) -> None:
        self._engine = engine
        self._on_end = 0

    async def run_verb(self, verb: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            return _guarded(verb)
        finally:
            elapsed = self._engine.take_elapsed()
            if elapsed > 0:
                # Waiting here is the verb's own duration, which a cancelled caller sits out as on a thread.
                with trio.CancelScope(shield=True):  # bounded by the simulated length of one verb
                    await trio.sleep(elapsed)
            elif self._is_time_to_give_way():
                await trio.lowlevel.cancel_shielded_checkpoint()

    def _is_time_to_give_way(self) -> bool:
        self._on_end = (self._on_end + 1) % GIVE_WAY_EVERY
        return self._on_end == 0


@dataclass(slots=True)
class _Job:
    work: Callable[[], Any]
    done: trio.Event = field(default_factory=trio.Event)
    result: outcome.Outcome[Any] | None = None

    def finish(self, result: outcome.Outcome[Any]) -> None:
        self.result = result
        self.done.set()


class ThreadHost(Actor[None]):
    """The engine thread. Has no inbox to speak of: jobs go by a `SimpleQueue`, which the thread can wait on."""

    name = "host"

    def __init__(self) -> None:
        super().__init__()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._stopped = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        token = trio.lowlevel.current_trio_token()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._host_thread, token)
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    self._stopped = True
                    self._jobs.put(None)
        finally:
            self._refuse_rest()

    def _refuse_rest(self) -> None:
        """Jobs that a thread which ended early, or was never up, has left."""
        while not self._jobs.empty():
            if (job := self._jobs.get_nowait()) is not None:
                job.finish(outcome.Error(ActorGone(self.name)))

    async def _host_thread(self, token: trio.lowlevel.TrioToken) -> None:
        # A thread cannot be cancelled: the sentinel ends it after the verb in hand, and until then this waits.
        await trio.to_thread.run_sync(self._serve, token, limiter=trio.CapacityLimiter(1))

    def _serve(self, token: trio.lowlevel.TrioToken) -> None:
        while (job := self._jobs.get()) is not None:
            result = outcome.capture(job.work)
            try:
                token.run_sync_soon(job.finish, result)
            except trio.RunFinishedError:
                return

    async def run_verb(self, verb: Callable[[], T]) -> T:
        return await self.run_job(partial(_guarded, verb))

    async def run_job(self, work: Callable[[], T]) -> T:
        """Any work on the engine thread, such as the load of a model; its exceptions come through unchanged."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._stopped:
            raise ActorGone(self.name)
        job = _Job(work)
        self._jobs.put(job)
        with trio.CancelScope(shield=True):  # bounded by the length of one verb
            await job.done.wait()
        assert job.result is not None
        result: T = job.result.unwrap()
        return result


@asynccontextmanager
async def open_host() -> AsyncIterator[ThreadHost]:
    """A running host: its thread ends with the block, after the verb in hand."""
    host = ThreadHost()
    async with trio.open_nursery() as nursery:
        await nursery.start(host.run)
        yield host
        nursery.cancel_scope.cancel()


def _guarded(verb: Callable[[], T]) -> T:
    try:
        return verb()
    except EngineError:
        raise
    except Exception as fault:
        raise as_engine_error(fault) from fault


def as_engine_error(fault: Exception) -> EngineError:
    """What a request may be told of a fault in a verb; what it tells of the engine goes into the log."""
    if isinstance(fault, EngineError):
        return fault
    # Where, and of which kind: the exception's own words may hold text of a client.
    frames = "".join(traceback.format_tb(fault.__traceback__)).rstrip()
    log.error("[engine] a verb failed: %s\n%s", type(fault).__name__, frames)
    return EngineError(f"{type(fault).__name__} in the engine")
