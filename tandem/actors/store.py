"""The store actor: the one owner of the usage ledger, which writes the rows of ended requests in groups.

Owns: the ledger's file and the rows that are not committed yet. Never: delays a request; touches a row's figures.

| message in     | from            | answer or effect                                           |
|----------------|-----------------|------------------------------------------------------------|
| `Record`       | request's task  | the row is in the file within a second; offered, never told |
| `Flush`        | drain, tests    | None once all that came before is in the file, or lost      |
| `LedgerFacts`  | /health         | `Facts`                                                     |
| `Read`         | routes          | the rows of each statement, or why there are none           |
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import trio

from tandem.actors.kit import Actor, Reply, WallClock
from tandem.store.ledger import Ledger, OpenLedger, StoreError
from tandem.store.outcome import Outcome
from tandem.store.query import Rows, Statement

__all__ = ["Facts", "Flush", "LedgerFacts", "Read", "Record", "Store", "StoreMessage"]

log = logging.getLogger(__name__)

COMMIT_EVERY_S = 1.0
BATCH_ROWS = 1000
REPORT_EVERY_S = 60.0
FLUSH_S = 15.0
"""How long the last rows may take when the actor is cancelled."""


@dataclass(frozen=True, slots=True)
class Record:
    """A request has ended."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Flush:
    """Commit now."""

    reply: Reply[None]


@dataclass(frozen=True, slots=True)
class Facts:
    """The ledger block of /health (OBS-103)."""

    enabled: bool
    rows: int
    """Rows in the file; without a ledger, requests since the start."""
    bytes: int
    queue: int
    """Rows that wait to be written."""
    dropped: int
    """Rows lost since the start: to a full inbox or to a failed write."""


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """Asks for `Facts`; answered while a write is under way."""

    reply: Reply[Facts]


@dataclass(frozen=True, slots=True)
class Read:
    """Runs on the connection that only reads, while writes go on."""

    statements: tuple[Statement, ...]
    reply: Reply[list[Rows] | StoreError]


StoreMessage: TypeAlias = Record | Flush | LedgerFacts | Read


class Store(Actor[StoreMessage]):
    """Runs with `open_ledger=None` too: then rows are only counted."""

    name = "store"
    essential = False
    inbox_size = 10_000

    def __init__(self, open_ledger: OpenLedger | None, clock: WallClock) -> None:
        super().__init__()
        self._open_ledger = open_ledger
        self._clock = clock
        self._ledger: Ledger | None = None
        self._rows = 0
        self._batch: list[Outcome] = []
        self._flushes: list[Reply[None]] = []
        self._writing = False
        self._hurry = trio.Event()
        """Set when the next commit must not wait for its second."""
        self._lost = 0
        self._unreported = 0
        self._report_at = -math.inf

    def __repr__(self) -> str:
        state = "on" if self._ledger else "off"
        return f"<Store: ledger {state}, {self._rows} rows, {len(self._batch)} waiting, {self._dropped} dropped>"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with AsyncExitStack() as stack:
            self._ledger = await self._open(stack)
            try:
                async with trio.open_nursery() as nursery:
                    task_status.started()
                    async for message in self.inbox:
                        self._take(message)
                        if (self._batch or self._flushes) and not self._writing:
                            self._writing = True
                            nursery.start_soon(self._write)
            finally:
                # A drain ends with this cancellation; what has been offered is still written. Bounded by FLUSH_S.
                with trio.move_on_after(FLUSH_S, shield=True):
                    await self._finish()

    async def _open(self, stack: AsyncExitStack) -> Ledger | None:
        """The ledger, or None where none is wanted or it cannot be used (OBS-007)."""
        if self._open_ledger is None:
            return None
        try:
            ledger = await stack.enter_async_context(self._open_ledger(self._clock.now()))
            ((self._rows,),) = await ledger.query("SELECT count(*) FROM requests")
        except StoreError as error:
            log.error("[ledger] off: %s", str(error))
            return None
        return ledger

    def _take(self, message: StoreMessage) -> None:
        match message:
            case Record(outcome):
                self._add(outcome)
            case Flush(reply):
                self._flushes.append(reply)
                self._hurry.set()
            case LedgerFacts(reply):
                reply.send(self._facts())
            case Read(_, failed):
                failed.send(StoreError("not built yet"))
            case _:
                assert_never(message)

    def _add(self, outcome: Outcome) -> None:
        if self._ledger is None:
            self._rows += 1
            return
        # Rows pile up here only behind a write that hangs; the inbox's bound holds for them as well.
        if len(self._batch) >= self.inbox_size:
            self._lost += 1
            return
        self._batch.append(outcome)
        if len(self._batch) >= BATCH_ROWS:
            self._hurry.set()

    async def _write(self) -> None:
        """Commit what has gathered until nothing is left; the task ends then, so an idle store keeps no timer."""
        try:
            while self._batch or self._flushes:
                with trio.move_on_after(COMMIT_EVERY_S):
                    await self._hurry.wait()
                await self._commit()
        finally:
            self._writing = False

    async def _commit(self) -> None:
        rows, self._batch = self._batch, []
        flushes, self._flushes = self._flushes, []
        self._hurry = trio.Event()
        if rows and self._ledger is not None:
            try:
                await self._ledger.write_rows(rows)
                self._rows += len(rows)
            except StoreError as error:
                self._note_loss(len(rows), error)
        _answer(flushes)

    async def _finish(self) -> None:
        while (message := self.inbox.receive_nowait()) is not None:
            self._take(message)
        await self._commit()
        if self._unreported:
            log.error("[ledger] %d more rows were lost", self._unreported)
            self._unreported = 0

    def _note_loss(self, rows: int, error: StoreError) -> None:
        self._lost += rows
        self._unreported += rows
        if trio.current_time() >= self._report_at:
            log.error("[ledger] %d rows were lost: %s", self._unreported, str(error))
            self._report_at = trio.current_time() + REPORT_EVERY_S
            self._unreported = 0

    @property
    def _dropped(self) -> int:
        return self._lost + self.ref.dropped

    def _facts(self) -> Facts:
        return Facts(
            enabled=self._ledger is not None,
            rows=self._rows,
            bytes=self._ledger.bytes() if self._ledger else 0,
            queue=len(self._batch) + self.ref.depth,
            dropped=self._dropped,
        )


def _answer(flushes: Iterable[Reply[None]]) -> None:
    for reply in flushes:
        reply.send(None)
