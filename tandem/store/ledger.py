"""The ledger as its owner sees it, and the two connections that both implementations make it from (OBS-002, OBS-117).

A ledger is one SQLite file with one connection that writes and one that only reads. `tandem.store.aio` runs them on
threads through aiosqlite, `tandem.store.inline` where it is called. Only the store actor opens one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from tandem.store.files import make_private_dir, open_private
from tandem.store.outcome import Outcome
from tandem.store.schema import VERSION, migrate, user_version

__all__ = [
    "BUSY_S",
    "Ledger",
    "NewerLedger",
    "OpenLedger",
    "StoreError",
    "file_bytes",
    "open_reader",
    "open_writer",
    "sqlite_errors",
]

BUSY_S = 5.0
"""How long a statement waits for a lock that another program holds on the file."""


class StoreError(Exception):
    """SQLite or the disk refused; the message is SQLite's own, which quotes no value."""


class NewerLedger(StoreError):
    """The file was written by a newer Tandem and has been left as it is."""


class Ledger(Protocol):
    """An open ledger. Its methods raise `StoreError`; one that failed leaves the ledger usable."""

    async def write_rows(self, outcomes: Sequence[Outcome]) -> None:
        """Add a row for each outcome, all of them or none. A cancelled caller leaves only when this is done."""

    async def query(self, sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of a read; a write raises. A cancelled query is interrupted."""

    def bytes(self) -> int:
        """Size on disk, with the write-ahead log."""


OpenLedger: TypeAlias = Callable[[datetime], AbstractAsyncContextManager[Ledger]]
"""Opens a ledger and closes it; the argument is the present, `created_at` of a new file. Raises `StoreError`."""


@contextmanager
def sqlite_errors() -> Iterator[None]:
    """The border where the errors of SQLite and of the file system become a `StoreError`."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(str(error)) from error


def open_writer(path: Path, created: datetime, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """The connection that writes, in autocommit mode, on a file that is created or migrated as needed.

    Raises `NewerLedger`, `sqlite3.Error` and `OSError`.
    """
    if path.exists():
        _refuse_newer(path)
    make_private_dir(path.parent)
    os.close(open_private(path))
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
    try:
        # auto_vacuum can only be set while the file has no table, and before WAL writes its first page.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        migrate(connection, created)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """A connection to an existing ledger that refuses every write."""
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    return connection


def file_bytes(path: Path) -> int:
    """Bytes of the database and of its write-ahead log; a file that cannot be read counts as empty."""
    total = 0
    for file in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError):
            total += file.stat().st_size
    return total


def _refuse_newer(path: Path) -> None:
    # Read-only, so that a newer file stays as it is, byte for byte.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        version = user_version(connection)
    if version > VERSION:
        raise NewerLedger(
            f"{path} has schema version {version}, this Tandem knows {VERSION}: update Tandem or name another ledger"
        )
