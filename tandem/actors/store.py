"""The store actor: the one owner of the usage ledger and the journal, which writes rows in groups.

Owns: the ledger's file and the rows that are not committed yet. Never: delays a request; touches a row's figures.

| message in     | from            | answer or effect                                            |
|----------------|-----------------|-------------------------------------------------------------|
| `Record`       | request's task  | the row is in the file within a second; offered, never told |
| `Journal`      | request's task  | the same of journal rows and hidden texts                   |
| `FillOutcome`  | request's task  | a request's journal rows say how it ended                   |
| `FillChecker`  | request's task  | the row before it in its session says what a checker found  |
| `Flush`        | drain, tests    | None once all that came before is in the file, or cannot be |
| `LedgerFacts`  | /health         | `Facts`                                                     |
| `Read`         | routes          | the rows of each statement, or why there are none           |

Without a ledger requests are only counted, and the journal is a ring in memory. What a full disk or a lock keeps from
being written waits, and is tried again until it can be.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, assert_never

import trio

from tandem.actors.kit import Actor, Reply, WallClock
from tandem.store.batch import Batch, Entry, Pending
from tandem.store.inline import open_memory
from tandem.store.journal import HiddenText, JournalRow, event_row, fill_row, text_rows
from tandem.store.ledger import BadRow, Ledger, OpenLedger, StoreError, Unanswered
from tandem.store.nightly import Alarm, prune, weekly_backup
from tandem.store.outcome import Outcome
from tandem.store.query import Rows, Statement

__all__ = [
    "Facts",
    "FillChecker",
    "FillOutcome",
    "Flush",
    "Journal",
    "LedgerFacts",
    "Read",
    "Record",
    "Store",
    "StoreMessage",
]

log = logging.getLogger(__name__)

COMMIT_EVERY_S = 1.0
RETRY_AT_MOST_S = 10.0
BATCH_ROWS = 1000
"""As many do not wait for their second."""
TRANSACTION_ROWS = 250
"""Made and written at a time, so that the event loop is not held up."""
REPORT_EVERY_S = 60.0
FLUSH_S = 15.0
"""How long the last rows may take when the actor is cancelled."""
RETENTION_DAYS = 400


@dataclass(frozen=True, slots=True)
class Record:
    """A request has ended."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Journal:
    """Something was decided; `texts` are the hidden texts that the rows name by hash."""

    rows: tuple[JournalRow, ...]
    texts: tuple[HiddenText, ...] = ()


@dataclass(frozen=True, slots=True)
class FillOutcome:
    """How the request ended that journal rows are about."""

    request_id: str
    outcome: str
    extra: Mapping[str, Any] | None = None
    """Fields of the router's row that only the end shows."""


@dataclass(frozen=True, slots=True)
class FillChecker:
    """A checker's verdict that came with `request_id`, about what its session did before (OBS-022)."""

    session_key: str
    request_id: str
    checker: str


@dataclass(frozen=True, slots=True)
class Flush:
    """Commit now."""

    reply: Reply[None]


@dataclass(frozen=True, slots=True)
class Facts:
    """The ledger block of /health (OBS-103)."""

    enabled: bool
    degraded: bool
    """The file cannot be written at present; rows wait in memory."""
    rows: int
    """Requests in the file; without a ledger, requests since the start."""
    bytes: int
    queue: int
    """Rows that wait to be written."""
    dropped: int
    """Rows lost since the start: to a full inbox, to a file that could not be written for long, to a bad value."""
    written: int = 0
    """Requests written to the file since the start: unlike `rows` it never falls."""


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """Asks for `Facts`; answered while a write is under way."""

    reply: Reply[Facts]


@dataclass(frozen=True, slots=True)
class Read:
    """Runs on the connection that only reads, while writes go on. Interrupted when its asker leaves."""

    statements: tuple[Statement, ...]
    reply: Reply[list[Rows] | StoreError]


StoreMessage: TypeAlias = Record | Journal | FillOutcome | FillChecker | Flush | LedgerFacts | Read


@dataclass(slots=True)
class Outage:
    """The file cannot be written."""

    dropped_before: int
    is_logged: bool
    retry_s: float = COMMIT_EVERY_S


class Store(Actor[StoreMessage]):
    """`open_ledger` is None where no ledger is wanted."""

    name = "store"
    essential = False
    inbox_size = 10_000

    def __init__(self, open_ledger: OpenLedger | None, clock: WallClock, retention_days: int = RETENTION_DAYS) -> None:
        super().__init__()
        self._open_ledger = open_ledger
        self._clock = clock
        self._retention_days = retention_days
        self._ledger: Ledger | None = None
        """The file, or the ring in memory; None before the start."""
        self._rows = 0
        self._written = 0
        # The inbox's bound holds here as well: rows pile up behind a write that hangs or fails.
        self._pending = Pending(self.inbox_size, TRANSACTION_ROWS)
        self._in_flight: Batch | None = None
        """Not known to be written, nor to have failed."""
        self._flushes: list[Reply[None]] = []
        self._reads: list[Read] = []
        self._writing = False
        self._hurry = trio.Event()
        """Set when the next commit must not wait for its second."""
        self._outage: Outage | None = None
        self._lost = 0
        self._lost_why = "the inbox was full"
        self._reported = 0
        self._report_losses_at = -math.inf
        self._report_outage_at = -math.inf

    def __repr__(self) -> str:
        state = "degraded" if self._outage else "on" if self._is_kept else "off"
        return f"<Store: ledger {state}, {self._rows} rows, {self._pending.rows} waiting, {self._dropped} dropped>"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with AsyncExitStack() as stack:
            self._ledger = await self._open(stack)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._work_at_night, self._ledger)
                    task_status.started()
                    async for message in self.inbox:
                        self._take(message)
                        while self._reads:
                            nursery.start_soon(self._read, self._ledger, self._reads.pop())
                        if (self._pending or self._flushes) and not self._writing:
                            self._writing = True
                            nursery.start_soon(self._write, self._ledger)
            finally:
                # A drain ends with this cancellation; what has been offered is still written. Bounded by FLUSH_S.
                with trio.move_on_after(FLUSH_S, shield=True):
                    await self._finish(self._ledger)

    async def _open(self, stack: AsyncExitStack) -> Ledger:
        """The ledger, or the journal's ring where none is wanted or it cannot be used (OBS-007, OBS-018)."""
        if self._open_ledger is not None:
            try:
                ledger = await stack.enter_async_context(self._open_ledger(self._clock.now()))
                ((((self._rows,),)),) = await ledger.read([Statement("SELECT count(*) FROM requests")])
            except StoreError as error:
                log.error("[ledger] off: %s", str(error))
            else:
                return ledger
        return await stack.enter_async_context(open_memory(self._clock.now()))

    def _take(self, message: StoreMessage) -> None:
        match message:
            case Record(outcome):
                if self._is_kept:
                    self._add(Entry(outcomes=(outcome,)))
                else:
                    self._rows += 1
            case Journal(rows, texts):
                self._journal(rows, texts)
            case FillOutcome(request_id, outcome_text, extra):
                self._add(Entry(fills=(fill_row(request_id, outcome_text, extra),)))
            case FillChecker(session_key, request_id, checker):
                self._add(Entry(checks=((checker, session_key, request_id),)))
            case Flush(reply):
                self._flushes.append(reply)
                self._hurry.set()
            case LedgerFacts(reply):
                reply.send(self._facts())
            case Read():
                self._reads.append(message)
            case _:
                assert_never(message)

    def _journal(self, rows: Iterable[JournalRow], texts: Iterable[HiddenText]) -> None:
        now_ms = int(self._clock.now().timestamp() * 1000)
        try:
            entry = Entry(texts=tuple(text_rows(texts, now_ms)), events=tuple(map(event_row, rows)))
        except (TypeError, ValueError) as error:  # a detail that is no JSON, or no UTF-8 holds
            self._lose(len(tuple(rows)), type(error).__name__)
        else:
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        self._lose(self._pending.add(entry), f"more than {self.inbox_size} were waiting")
        if self._pending.rows >= BATCH_ROWS and self._outage is None:
            self._hurry.set()

    async def _write(self, ledger: Ledger) -> None:
        """Commit what has gathered until nothing is left; the task ends then, so an idle store commits nothing."""
        try:
            while self._pending or self._in_flight or self._flushes:
                with trio.move_on_after(self._outage.retry_s if self._outage else COMMIT_EVERY_S):
                    await self._hurry.wait()
                await self._commit(ledger)
        finally:
            self._writing = False

    async def _commit(self, ledger: Ledger) -> None:
        flushes, self._flushes = self._flushes, []
        self._hurry = trio.Event()
        while await self._write_batch(ledger):
            pass
        self._report_losses()
        for reply in flushes:
            reply.send(None)

    async def _write_batch(self, ledger: Ledger) -> bool:
        """Write the oldest rows; whether to go on with the next."""
        batch = self._in_flight or self._pending.take(is_ring=not self._is_kept)
        if batch is None:
            return False
        self._in_flight = batch
        try:
            await ledger.write(batch.steps())
        except Unanswered as error:
            self._note_outage(error)
            return False
        except BadRow as error:
            self._in_flight = None
            self._lose(self._pending.split(batch), str(error))
            return True
        except StoreError as error:
            self._in_flight = None
            self._lose(self._pending.put_back(batch), str(error))
            self._note_outage(error)
            return False
        self._in_flight = None
        self._rows += batch.requests
        self._written += batch.requests
        self._note_recovery(batch)
        return True

    async def _read(self, ledger: Ledger, read: Read) -> None:
        answer: list[Rows] | StoreError
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_when_left, read.reply, nursery.cancel_scope)
                try:
                    answer = await ledger.read(read.statements)
                except StoreError as error:
                    answer = error
                read.reply.send(answer)
                nursery.cancel_scope.cancel()
        finally:
            read.reply.drop()  # nothing, where it has been answered

    async def _work_at_night(self, ledger: Ledger) -> None:
        alarm = Alarm(self._clock.now())
        while True:
            await trio.sleep(alarm.nap_s(self._clock.now()))
            now = self._clock.now()
            if alarm.is_due(now):
                await self._tidy(ledger, now)

    async def _tidy(self, ledger: Ledger, now: datetime) -> None:
        try:
            gone = await prune(ledger, now, self._retention_days)
            self._rows -= gone.requests
            backed_up = await weekly_backup(ledger, now)
        except (StoreError, OSError) as error:
            log.error("[ledger] the night's work is left for tomorrow: %s", str(error))
        else:
            rows = f"{gone.requests} requests, {gone.events} journal rows and {gone.texts} texts"
            log.info("[ledger] %s were old and are deleted%s", rows, "; a backup was made" if backed_up else "")

    async def _finish(self, ledger: Ledger) -> None:
        while (message := self.inbox.receive_nowait()) is not None:
            self._take(message)
        while self._reads:
            self._reads.pop().reply.drop()
        await self._commit(ledger)
        self._report_losses(at_end=True)
        left = self._pending.rows + (self._in_flight.rows if self._in_flight else 0)
        if left:
            log.error("[ledger] %d rows could not be written before the end", left)

    def _note_outage(self, error: StoreError) -> None:
        """One line an outage, and one a minute where the disk comes and goes."""
        if self._outage is not None:
            self._outage.retry_s = min(2 * self._outage.retry_s, RETRY_AT_MOST_S)
            return
        now = trio.current_time()
        self._outage = Outage(self._dropped, is_logged=now >= self._report_outage_at)
        if self._outage.is_logged:
            self._report_outage_at = now + REPORT_EVERY_S
            log.error("[ledger] cannot be written, so rows wait in memory: %s", str(error))

    def _note_recovery(self, batch: Batch) -> None:
        outage, self._outage = self._outage, None
        if outage is not None and outage.is_logged:
            kept = batch.rows + self._pending.rows
            lost = self._dropped - outage.dropped_before
            log.warning("[ledger] can be written again: %d rows were kept, %d lost", kept, lost)

    def _lose(self, rows: int, why: str) -> None:
        if rows:
            self._lost += rows
            self._lost_why = why
            self._report_losses()

    def _report_losses(self, *, at_end: bool = False) -> None:
        """At most once a minute, and what that keeps back at the end (OBS-004)."""
        lost = self._dropped - self._reported
        if lost and (at_end or trio.current_time() >= self._report_losses_at):
            log.error("[ledger] %d rows were lost: %s", lost, self._lost_why)
            self._report_losses_at = trio.current_time() + REPORT_EVERY_S
            self._reported += lost

    @property
    def _is_kept(self) -> bool:
        """Whether there is a ledger: a file."""
        return self._ledger is not None and self._ledger.path is not None

    @property
    def _dropped(self) -> int:
        return self._lost + self.ref.dropped

    def _facts(self) -> Facts:
        return Facts(
            enabled=self._is_kept,
            degraded=self._outage is not None,
            rows=self._rows,
            bytes=self._ledger.bytes() if self._ledger else 0,
            queue=self._pending.rows + self.ref.depth,
            dropped=self._dropped,
            written=self._written,
        )


async def _cancel_when_left(reply: Reply[list[Rows] | StoreError], scope: trio.CancelScope) -> None:
    await reply.wait_closed()
    scope.cancel()
