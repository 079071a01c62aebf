"""The ledger through aiosqlite, in a trio-asyncio loop of its own (OBS-002).

aiosqlite runs each connection on a thread. Only this module holds asyncio-flavoured code, and it crosses the border
between trio and asyncio once a transaction or read, because a crossing costs about as much as a statement.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import trio
from trio_asyncio import aio_as_trio, open_loop

from tandem.store.backup import make_backup
from tandem.store.ledger import (
    BUSY_S,
    Ledger,
    Step,
    StoreError,
    Unanswered,
    file_bytes,
    open_reader,
    open_writer,
    sqlite_errors,
    vacuum_script,
)
from tandem.store.query import Rows, Statement

__all__ = ["open_aio"]

CHUNK = 64
"""Rows aiosqlite fetches at a time; unused here, where results are fetched whole."""
OPEN_S = 60.0
"""A migration of a large ledger takes its time."""
WRITE_S = 10.0
CLOSE_S = 5.0
INTERRUPT_EVERY_S = 0.01


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
        # One read at a time: interrupting one must not hit another task's.
        self._reading = trio.Lock()
        # One transaction at a time on the one connection.
        self._writing = trio.Lock()
        self._steps: Sequence[Step] | None = None
        self._late: asyncio.Task[list[int]] | None = None
        """Writes `_steps`; its asker has waited for WRITE_S and gone."""
        self._copying = trio.CapacityLimiter(1)

    async def open(self, created: datetime, busy_s: float) -> None:
        with sqlite_errors(self._path):
            # Cancelling would not stop the thread that opens. Bounded by OPEN_S.
            with trio.move_on_after(OPEN_S, shield=True):
                await aio_as_trio(self._open)(created, busy_s)
                return
            raise StoreError(f"{self._path} could not be opened within {OPEN_S:g} s")

    async def write(self, steps: Sequence[Step]) -> list[int]:
        changed: list[int] = await self._change(partial(self._write, steps))
        return changed

    async def read(self, statements: Sequence[Statement]) -> list[Rows]:
        async with self._reading:
            with sqlite_errors():
                try:
                    answers: list[Rows] = await aio_as_trio(self._read)(statements)
                    return answers
                except trio.Cancelled:
                    # The statement would run on, with the next one waiting behind it. Bounded by CLOSE_S.
                    with trio.move_on_after(CLOSE_S, shield=True):
                        await aio_as_trio(self._interrupt)()
                    raise

    async def vacuum(self, pages: int) -> int:
        free: int = await self._change(partial(self._vacuum, pages))
        return free

    async def backup(self, target: Path) -> None:
        with sqlite_errors():
            await trio.to_thread.run_sync(
                make_backup, self._path, target, trio.from_thread.check_cancelled, limiter=self._copying
            )

    def bytes(self) -> int:
        return file_bytes(self._path)

    @property
    def path(self) -> Path:
        return self._path

    async def close(self) -> None:
        await aio_as_trio(self._close)()

    async def _change(self, change: Callable[[], Any]) -> Any:
        with sqlite_errors():
            # A cancelled commit commits all the same, so nobody is let go before it is known. Bounded by WRITE_S.
            with trio.move_on_after(WRITE_S, shield=True):
                async with self._writing:
                    return await aio_as_trio(change)()
            raise Unanswered(f"{self._path} has not answered for {WRITE_S:g} s")

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

    async def _write(self, steps: Sequence[Step]) -> list[int]:
        """Their transaction, or, where that has been begun already, what comes of it."""
        if self._late is None or self._steps is not steps:
            await self._settle()
            self._steps, self._late = steps, asyncio.create_task(self._transact(steps))
        # The asker's timeout ends this wait and not the transaction: the thread goes on, and how it ends must be known.
        await asyncio.wait({self._late})
        late, self._late, self._steps = self._late, None, None
        return late.result()

    async def _settle(self) -> None:
        """Wait for a transaction whose asker has gone for good."""
        if self._late is not None:
            await asyncio.wait({self._late})
            self._late.exception()  # looked at, or asyncio complains
            self._late = self._steps = None

    async def _transact(self, steps: Sequence[Step]) -> list[int]:
        await self._writer.execute("BEGIN IMMEDIATE")
        try:
            changed = [(await self._writer.executemany(sql, rows)).rowcount for sql, rows in steps]
            await self._writer.execute("COMMIT")
        except Exception:
            # A full disk makes SQLite roll back by itself.
            if self._writer.in_transaction:
                await self._writer.rollback()  # noqa: ASYNC120  this task is cancelled with its loop only
            raise
        return changed

    async def _read(self, statements: Sequence[Statement]) -> list[Rows]:
        # One transaction, so that all of them see the file of one moment.
        await self._reader.execute("BEGIN")
        try:
            answers: list[Rows] = [await self._fetch(each) for each in statements]
        except Exception:  # not when cancelled: the statement would have to end first
            await self._reader.rollback()  # noqa: ASYNC120  a cancelled one is made up for by `_interrupt`
            raise
        await self._reader.rollback()
        return answers

    async def _fetch(self, statement: Statement) -> Any:
        return await self._reader.execute_fetchall(statement.sql, statement.params)

    async def _interrupt(self) -> None:
        """Interrupt until the thread has nothing left to do: a statement may not have begun when it is interrupted."""
        idle = asyncio.ensure_future(self._reader.rollback())
        while not idle.done():
            await self._reader.interrupt()
            await asyncio.wait({idle}, timeout=INTERRUPT_EVERY_S)
        idle.exception()

    async def _vacuum(self, pages: int) -> int:
        await self._settle()
        await self._writer.executescript(vacuum_script(pages))
        ((free,),) = await self._writer.execute_fetchall("PRAGMA freelist_count")
        return int(free)

    async def _close(self) -> None:
        await self._settle()
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
