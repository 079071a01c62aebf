"""The ledger through aiosqlite, in a trio-asyncio loop of its own (OBS-002).

aiosqlite runs each connection on a thread. Only this module holds asyncio-flavoured code, and it crosses the border
between trio and asyncio once a transaction, because a crossing costs about as much as a statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import trio
from trio_asyncio import aio_as_trio, open_loop

from tandem.store.ledger import BUSY_S, Ledger, StoreError, file_bytes, open_reader, open_writer, sqlite_errors
from tandem.store.outcome import Outcome
from tandem.store.schema import INSERT, Row, row

__all__ = ["open_aio"]

CHUNK = 64
"""Rows aiosqlite fetches at a time; unused here, where results are fetched whole."""
OPEN_S = 60.0
"""A migration of a large ledger takes its time."""
WRITE_S = 10.0
CLOSE_S = 5.0


@asynccontextmanager
async def open_aio(path: Path, created: datetime, *, busy_s: float = BUSY_S) -> AsyncIterator[Ledger]:
    """The ledger at `path`, as `OpenLedger` describes."""
    refused: StoreError | None = None
    async with open_loop():
        ledger = AioLedger(path)
        try:
            await ledger.open(created, busy_s)
            yield ledger
        except StoreError as error:
            refused = error  # raised outside the loop, whose nurseries would wrap it into groups
        finally:
            # An unclosed connection's thread keeps the process alive. Bounded by CLOSE_S.
            with trio.move_on_after(CLOSE_S, shield=True):
                await ledger.close()
    if refused is not None:
        raise refused


class AioLedger:
    """See `Ledger`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: aiosqlite.Connection
        self._reader: aiosqlite.Connection
        self._opened: list[aiosqlite.Connection] = []
        # One statement at a time: interrupting a query must not hit another task's.
        self._reading = trio.Lock()

    async def open(self, created: datetime, busy_s: float) -> None:
        with sqlite_errors():
            # Cancelling would not stop the thread that opens. Bounded by OPEN_S.
            with trio.move_on_after(OPEN_S, shield=True):
                await aio_as_trio(self._open)(created, busy_s)
                return
            raise StoreError(f"{self._path} could not be opened within {OPEN_S:g} s")

    async def write_rows(self, outcomes: Sequence[Outcome]) -> None:
        rows = [row(outcome) for outcome in outcomes]
        with sqlite_errors():
            # A cancelled commit commits all the same, so nobody is let go before it is known. Bounded by WRITE_S.
            with trio.move_on_after(WRITE_S, shield=True):
                await aio_as_trio(self._write)(rows)
                return
            raise StoreError(f"{self._path} did not answer within {WRITE_S:g} s")

    async def query(self, sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        async with self._reading:
            with sqlite_errors():
                try:
                    return list(await aio_as_trio(self._fetch)(sql, params))
                except trio.Cancelled:
                    # The statement would run on, with the next one waiting behind it. Bounded by CLOSE_S.
                    with trio.move_on_after(CLOSE_S, shield=True):
                        await aio_as_trio(self._reader.interrupt)()
                    raise

    def bytes(self) -> int:
        return file_bytes(self._path)

    async def close(self) -> None:
        await aio_as_trio(self._close)()

    # From here on asyncio-flavoured: reached through `aio_as_trio` only.

    async def _open(self, created: datetime, busy_s: float) -> None:
        self._writer = await self._connect(_Connector(partial(open_writer, self._path, created, busy_s)))
        self._reader = await self._connect(_Connector(partial(open_reader, self._path, busy_s)))

    async def _connect(self, connector: _Connector) -> aiosqlite.Connection:
        connection = await aiosqlite.Connection(connector, CHUNK)
        self._opened.append(connection)
        if connector.error is not None:
            raise connector.error
        return connection

    async def _write(self, rows: list[Row]) -> None:
        if self._writer.in_transaction:  # left by a write that took longer than WRITE_S
            await self._writer.rollback()
        await self._writer.execute("BEGIN IMMEDIATE")
        try:
            await self._writer.executemany(INSERT, rows)
            await self._writer.execute("COMMIT")
        except Exception:
            # A full disk makes SQLite roll back by itself.
            if self._writer.in_transaction:
                await self._writer.rollback()  # noqa: ASYNC120  a cancelled one is made up for by the next write
            raise

    async def _fetch(self, sql: str, params: Sequence[object]) -> Iterable[Any]:
        return await self._reader.execute_fetchall(sql, params)

    async def _close(self) -> None:
        for connection in reversed(self._opened):
            await connection.close()


class _Connector:
    """Opens a connection on its thread and keeps the error, if any, in `error`.

    aiosqlite leaves the thread of a connector that raises to itself, which then finds the loop closed; the thread of a
    connection is waited for at its close. So a failure gives a connection too, to nothing.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self.error: sqlite3.Error | OSError | StoreError | None = None

    def __call__(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except (sqlite3.Error, OSError, StoreError) as error:
            self.error = error
            return sqlite3.connect(":memory:")
