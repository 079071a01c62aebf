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
from typing import Protocol, TypeAlias

from tandem.store.files import make_private_dir, open_private, read_only_uri
from tandem.store.query import Rows, Statement
from tandem.store.schema import VERSION, Row, migrate, table_names, user_version

__all__ = [
    "BUSY_S",
    "BadRow",
    "Ledger",
    "OpenLedger",
    "Step",
    "StoreError",
    "Unanswered",
    "UnfitFile",
    "file_bytes",
    "open_reader",
    "open_writer",
    "refuse_unfit",
    "sqlite_errors",
    "vacuum_script",
]

BUSY_S = 5.0
"""How long a statement waits for a lock that another program holds on the file."""
WAL_BYTES = 16 * 2**20
"""What is left of the write-ahead log after a large deletion."""

Step: TypeAlias = tuple[str, Sequence[Row]]
"""A statement that changes rows, and the parameters of each time that it is run."""


class StoreError(Exception):
    """SQLite or the disk refused; the message is SQLite's own, which quotes no value."""


class UnfitFile(StoreError):
    """The file was written by a newer Tandem or by another program, and has been left as it is."""


class BadRow(StoreError):
    """A value that SQLite cannot hold, or that the table does not allow: the same rows fail again at any time."""


class Unanswered(StoreError):
    """The disk has not answered yet. The same steps, written again, wait for the same answer."""


class Ledger(Protocol):
    """An open ledger. Its methods raise `StoreError`; one that failed leaves the ledger usable."""

    async def write(self, steps: Sequence[Step]) -> list[int]:
        """Take these steps, all of them or none; how many rows each has changed.

        A cancelled caller leaves only when this is done.
        """

    async def read(self, statements: Sequence[Statement]) -> list[Rows]:
        """The rows of each statement; a write raises. A cancelled read is interrupted."""

    async def vacuum(self, pages: int) -> int:
        """Give up to so many free pages back to the file system; how many are still free."""

    async def backup(self, target: Path) -> None:
        """Make `target` a copy without the journal. Neither writes nor reads wait for it."""

    def bytes(self) -> int:
        """Size on disk, with the write-ahead log."""

    @property
    def path(self) -> Path | None:
        """The file; None for a ledger in memory, which keeps no requests and has no backup."""


OpenLedger: TypeAlias = Callable[[datetime], AbstractAsyncContextManager[Ledger]]
"""Opens a ledger and closes it; the argument is the present, `created_at` of a new file. Raises `StoreError`."""

_BAD_ROWS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    OverflowError,
    UnicodeError,
)


@contextmanager
def sqlite_errors(path: Path | None = None) -> Iterator[None]:
    """The border where the errors of SQLite and of the file system become a `StoreError`, which names `path`."""
    try:
        yield
    except _BAD_ROWS as error:
        # A UnicodeError quotes the text that it is about.
        raise BadRow(str(error) if isinstance(error, sqlite3.Error) else type(error).__name__) from None
    except (sqlite3.Error, sqlite3.Warning, OSError) as error:
        raise StoreError(f"{path}: {error}" if path else str(error)) from error


def open_writer(path: Path, created: datetime, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """The connection that writes, in autocommit mode, on a file that is created or migrated as needed.

    Raises `UnfitFile`, `sqlite3.Error` and `OSError`.
    """
    if path.exists():
        with closing(sqlite3.connect(read_only_uri(path), uri=True, timeout=busy_s)) as connection:
            refuse_unfit(connection, path)  # read-only, so that such a file stays as it is, byte for byte
    make_private_dir(path.parent)
    os.close(open_private(path))
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
    try:
        # auto_vacuum can only be set while the file has no table, and before WAL writes its first page.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
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


def refuse_unfit(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `UnfitFile` where this Tandem must not write to the file at `path`."""
    version = user_version(connection)
    if version > VERSION:
        raise UnfitFile(
            f"{path} has schema version {version}, this Tandem knows {VERSION}: update Tandem or name another ledger"
        )
    tables = table_names(connection)
    if tables and not {"requests", "meta"} <= set(tables):
        raise UnfitFile(f"{path} is a database of another program: name another ledger")


def vacuum_script(pages: int) -> str:
    """Run as a script, because `execute` stops at the first page, of which SQLite makes a row without columns."""
    return f"PRAGMA incremental_vacuum({pages:d})"


def file_bytes(path: Path) -> int:
    """Bytes of the database and of its write-ahead log; a file that cannot be read counts as empty."""
    total = 0
    for file in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError):
            total += file.stat().st_size
    return total
