"""The keeper: while nothing runs it has the caches written to the disk; it empties them, and spills at the drain.

Owns: whether a request runs, and the piece that is being written. It asks the engine for one piece at a time, once the
slots have been quiet for a moment, holds the GPU turn for that verb alone, and writes the piece in a worker thread: a
request that comes meanwhile waits for one verb at most. So it takes no idle window of the broker's: the slot would be
held while a file is written. What fails here costs what was to be kept, and no answer.

| message in   | from         | answer or effect                                                                |
|--------------|--------------|---------------------------------------------------------------------------------|
| `Busy`       | slot, broker | a request runs: no further piece is asked for                                   |
| `Rested`     | slot, broker | it has ended: soon the pieces there are get written, one after the other        |
| `Clear`      | route        | caches are emptied once no generation runs; answered with bytes, or why not     |
| `Configure`  | documents    | the disk tier's settings hold from the next request on                          |
| `LookAtDisk` | route        | what the disk tier holds; None: there is none                                   |
| `Spill`      | service      | conversations are written down for the next start; answered when that has ended |
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, assert_never

import trio

from tandem.actors.host import EngineHost
from tandem.actors.kit import Actor, ActorGone, Blocking, Ref, Reply, WallClock
from tandem.actors.line import Rank
from tandem.actors.queue import Enter, Granted, Leave, Lent, QueueMessage, Refused, SlotFree
from tandem.actors.turns import GiveUp, Turn, TurnMessage, Want
from tandem.engine.caches.disk_index import DiskSettings
from tandem.engine.errors import EngineError

if TYPE_CHECKING:
    from tandem.engine.caches.caching import Caching, DiskView, MemoryView
    from tandem.engine.caches.disk_writes import WriteJob

__all__ = ["Busy", "Clear", "Cleared", "Configure", "Keeper", "KeeperMessage", "LookAtDisk", "Rested", "Spill"]

T = TypeVar("T")

log = logging.getLogger(__name__)

QUIET_S = 0.5
"""How long no request must have run before the first piece: a follow-up finds the engine free."""
CLEAR_S = 30.0
"""How long a clear waits for the generation that runs (API-063)."""
TURN = -1
"""The keeper among the slots, as the turn scheduler sees it."""


@dataclass(frozen=True, slots=True)
class Busy:
    slot: int


@dataclass(frozen=True, slots=True)
class Rested:
    slot: int


@dataclass(frozen=True, slots=True)
class Cleared:
    """Bytes that each cache has given up."""

    freed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Clear:
    """`caches` None: all that are on."""

    caches: tuple[str, ...] | None
    reply: Reply[Cleared | Refused]
    """`Refused` with the code `busy` after `CLEAR_S`, with the queue's own, or with `failed`."""


@dataclass(frozen=True, slots=True)
class Spill:
    reply: Reply[None]


@dataclass(frozen=True, slots=True)
class Configure:
    """Other settings of the disk tier, by the keys of the settings document."""

    disk: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LookAtDisk:
    reply: Reply[DiskView | None]


KeeperMessage: TypeAlias = Busy | Rested | Clear | Configure | LookAtDisk | Spill


class Keeper(Actor[KeeperMessage]):
    name = "keeper"
    essential = False
    inbox_size = 256

    def __init__(
        self,
        *,
        engine: Caching,
        host: EngineHost,
        turns: Ref[TurnMessage],
        queue: Ref[QueueMessage],
        blocking: Blocking,
        wall: WallClock,
    ) -> None:
        super().__init__()
        self._engine = engine
        self._host = host
        self._turns = turns
        self._queue = queue
        self._blocking = blocking
        self._wall = wall
        self._running: set[int] = set()
        self._due = math.inf
        self._told: MemoryView | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        self._tell()
        while True:
            message = self.inbox.receive_nowait()
            if message is None:
                with trio.move_on_at(self._due):
                    message = await self.inbox.receive()
            if message is None:
                await self._keep_piece()
            else:
                await self._take(message)

    async def _take(self, message: KeeperMessage) -> None:
        match message:
            case Busy(slot):
                self._running.add(slot)
                self._due = math.inf
            case Rested(slot):
                self._running.discard(slot)
                self._wait_for_quiet()
            case Clear(caches, reply):
                with _answered(reply):
                    reply.send(await self._clear(caches))
                self._wait_for_quiet()
            case Configure(disk):
                await self._configure(disk)
            case LookAtDisk(reply):
                with _answered(reply):
                    reply.send(await self._with_turn(self._engine.disk))
            case Spill(reply):
                with _answered(reply):
                    await self._spill()
                    reply.send(None)
            case _:
                assert_never(message)

    async def _configure(self, disk: Mapping[str, Any]) -> None:
        try:
            await self._with_turn(partial(self._engine.configure, DiskSettings.of(disk), self._now()))
        except EngineError as error:
            log.error("[cache] the disk tier keeps its settings: %s", error)
            return
        log.info("[cache] disk tier: %s", ", ".join(f"{name} {value}" for name, value in disk.items()))

    def _wait_for_quiet(self) -> None:
        self._due = math.inf if self._running else trio.current_time() + QUIET_S

    async def _keep_piece(self) -> None:
        """One piece of what is to be written. The next one is due at once, where there was any."""
        self._due = math.inf
        try:
            job = await self._with_turn(partial(self._engine.upkeep, self._now()), gives_way=True)
            if job is None:
                self._tell()
                return
            outcome = await self._blocking.run("keep", _write, job)
            await self._with_turn(partial(self._engine.kept, job, outcome, self._now()))
        except EngineError as error:
            log.error("[cache] nothing more is written for now: %s", error)
            return
        self._tell()
        if not self._running:
            self._due = trio.current_time()

    async def _clear(self, caches: tuple[str, ...] | None) -> Cleared | Refused:
        """As a request that goes before those that wait: a slot of its own, so that no generation holds the engine."""
        granted = await self._enter()
        if isinstance(granted, Refused):
            return granted
        try:
            freed = await self._with_turn(partial(self._engine.clear, caches)) or {}
        except EngineError as error:
            log.error("[cache] could not be cleared: %s", error)
            return Refused("failed")
        finally:
            with trio.CancelScope(shield=True), suppress(ActorGone):  # bounded by the queue, which never waits
                await self._queue.tell(SlotFree(granted.slot))
        log.info("[cache] cleared: %s", _numbers(freed))
        return Cleared(freed)

    async def _enter(self) -> Granted | Refused | Lent:
        reply = Reply[Granted | Refused | Lent]()
        answer: Granted | Refused | Lent | None = None
        try:
            await self._queue.tell(Enter(self.name, Rank.SIDE, reply))
            with trio.move_on_after(CLEAR_S):
                answer = await reply.wait()
            if answer is None:
                await self._queue.ask(lambda left: Leave(self.name, left))
                answer = reply.take_nowait()  # it may have come meanwhile
        finally:
            reply.close()
        return answer or Refused("busy")

    async def _spill(self) -> None:
        started = trio.current_time()
        try:
            spilled = await self._with_turn(self._engine.spill)
        except EngineError as error:
            log.error("[cache] the conversation is not kept for the next start: %s", error)
            return
        if spilled:
            log.info("[cache] spilled in %.1f s: %s", trio.current_time() - started, _numbers(spilled))

    def _tell(self) -> None:
        """What is new about files and memory, for the log (OBS-043); a refusal has its line already."""
        last, self._told = self._told, self._engine.memory()
        for note in self._told.notes:
            if last is None or note not in last.notes:
                log.warning("[cache] %s", note)
        for event in self._told.events:
            if event.kind != "refuse" and (last is None or event not in last.events):
                log.info("[memory] %s for %d bytes: %s", event.kind, event.need, _numbers(event.shed))

    async def _with_turn(self, verb: Callable[[], T], *, gives_way: bool = False) -> T | None:
        """The verb's result, under the GPU turn; None where a request has come before it, to which `gives_way`."""
        await self._turns.ask(self._want)
        try:
            if gives_way and self.inbox.depth:
                return None
            return await self._host.run_verb(verb)
        finally:
            self._turns.offer(GiveUp(TURN))  # a scheduler without room for it has ended itself

    def _want(self, reply: Reply[Turn]) -> Want:
        return Want(TURN, reply)

    def _now(self) -> float:
        return self._wall.now().timestamp()


@contextmanager
def _answered(reply: Reply[Any]) -> Iterator[None]:
    """Whoever asked learns of a defect too: this actor is started again, and its inbox stays open."""
    try:
        yield
    finally:
        reply.drop()  # without effect where it was sent


def _write(job: WriteJob) -> int | OSError:
    # torch takes a second to import, which a service over the fake engine need not wait for.
    from tandem.engine.caches.disk_writes import write

    return write(job)


def _numbers(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "nothing"
