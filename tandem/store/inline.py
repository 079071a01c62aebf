"""The ledger where it is called, by sqlite3: for the mock clock, under which no thread may run (SCH-007)."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import trio

from tandem.store.ledger import BUSY_S, Ledger, file_bytes, open_reader, open_writer, sqlite_errors
from tandem.store.outcome import Outcome
from tandem.store.schema import INSERT, row, transaction

__all__ = ["open_inline"]


@asynccontextmanager
async def open_inline(path: Path, created: datetime, *, busy_s: float = BUSY_S) -> AsyncIterator[Ledger]:
    """The ledger at `path`, as `OpenLedger` describes. Every call blocks the event loop while SQLite works."""
    await trio.lowlevel.checkpoint()
    with ExitStack() as opened:
        with sqlite_errors():
            writer = opened.enter_context(closing(open_writer(path, created, busy_s)))
            reader = opened.enter_context(closing(open_reader(path, busy_s)))
        yield InlineLedger(path, writer, reader)


class InlineLedger:
    """See `Ledger`."""

    def __init__(self, path: Path, writer: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        self._path = path
        self._writer = writer
        self._reader = reader

    async def write_rows(self, outcomes: Sequence[Outcome]) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        with sqlite_errors(), transaction(self._writer):
            self._writer.executemany(INSERT, map(row, outcomes))

    async def query(self, sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        await trio.lowlevel.checkpoint()
        with sqlite_errors():
            return self._reader.execute(sql, params).fetchall()

    def bytes(self) -> int:
        return file_bytes(self._path)
