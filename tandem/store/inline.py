"""The ledger where it is called, by sqlite3: for the mock clock, under which no thread may run (SCH-007), and for the
journal of a service that keeps no ledger, which is in memory (OBS-018)."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from datetime import datetime
from pathlib import Path

import trio

from tandem.store.backup import make_backup
from tandem.store.ledger import (
    BUSY_S,
    Ledger,
    Step,
    file_bytes,
    open_reader,
    open_writer,
    sqlite_errors,
    vacuum_script,
)
from tandem.store.query import Rows, Statement
from tandem.store.schema import migrate, transaction

__all__ = ["open_inline", "open_memory"]


@asynccontextmanager
async def open_inline(path: Path, created: datetime, *, busy_s: float = BUSY_S) -> AsyncIterator[Ledger]:
    """The ledger at `path`, as `OpenLedger` describes. Every call blocks the event loop while SQLite works."""
    await trio.lowlevel.checkpoint()
    with ExitStack() as opened:
        with sqlite_errors(path):
            writer = opened.enter_context(closing(open_writer(path, created, busy_s)))
            reader = opened.enter_context(closing(open_reader(path, busy_s)))
        yield InlineLedger(path, writer, reader)


@asynccontextmanager
async def open_memory(created: datetime) -> AsyncIterator[Ledger]:
    """The same in memory, for as long as it is open. What it holds is small, so nothing waits for it."""
    await trio.lowlevel.checkpoint()
    name = f"file:tandem-{secrets.token_hex(8)}?mode=memory&cache=shared"
    with ExitStack() as opened:
        with sqlite_errors():
            writer, reader = (
                opened.enter_context(closing(sqlite3.connect(name, uri=True, isolation_level=None))) for _ in range(2)
            )
            migrate(writer, created)
            reader.execute("PRAGMA query_only = ON")
        yield InlineLedger(None, writer, reader)


class InlineLedger:
    """See `Ledger`."""

    def __init__(self, path: Path | None, writer: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        self._path = path
        self._writer = writer
        self._reader = reader

    async def write(self, steps: Sequence[Step]) -> list[int]:
        await trio.lowlevel.cancel_shielded_checkpoint()
        with sqlite_errors(), transaction(self._writer):
            return [self._writer.executemany(sql, rows).rowcount for sql, rows in steps]

    async def read(self, statements: Sequence[Statement]) -> list[Rows]:
        await trio.lowlevel.checkpoint()
        with sqlite_errors():
            self._reader.execute("BEGIN")
            try:
                return [self._reader.execute(each.sql, each.params).fetchall() for each in statements]
            finally:
                self._reader.rollback()

    async def vacuum(self, pages: int) -> int:
        await trio.lowlevel.cancel_shielded_checkpoint()
        with sqlite_errors():
            self._writer.executescript(vacuum_script(pages))
            ((free,),) = self._writer.execute("PRAGMA freelist_count").fetchall()
        return int(free)

    async def backup(self, target: Path) -> None:
        await trio.lowlevel.checkpoint()
        if self._path is not None:
            with sqlite_errors():
                make_backup(self._path, target)

    def bytes(self) -> int:
        return 0 if self._path is None else file_bytes(self._path)

    @property
    def path(self) -> Path | None:
        return self._path
