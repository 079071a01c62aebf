"""The ledger's tables: one list of columns, the SQL made from it, and the migrations (OBS-005 to OBS-007).

The schema's version is SQLite's `user_version`, the number of migrations that a file has seen. A new column goes into a
tuple of its own, which a new migration adds to the table and `COLUMNS` appends; a published migration never changes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from tandem.store.outcome import Outcome

__all__ = ["COLUMNS", "INSERT", "MIGRATIONS", "VERSION", "Column", "Migration", "Row", "migrate", "row", "transaction"]

Row = tuple[Any, ...]
"""The values of `COLUMNS`, in their order."""
Migration = tuple[str, ...]
"""Statements that bring a file from one version to the next."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `requests`, named as the field of `Outcome` that fills it."""

    name: str
    declaration: str

    def __str__(self) -> str:
        return f"{self.name} {self.declaration}"


COLUMNS_1 = (
    Column("ts_ms", "INTEGER NOT NULL"),
    Column("request_id", "TEXT NOT NULL"),
    Column("model", "TEXT"),
    Column("model_served", "TEXT NOT NULL"),
    Column("client_id", "TEXT NOT NULL"),
    Column("client_kind", "TEXT NOT NULL"),
    Column("conductor_mode", "TEXT NOT NULL"),
    Column("endpoint", "TEXT NOT NULL"),
    Column("stream", "INTEGER NOT NULL"),
    Column("status", "INTEGER NOT NULL"),
    Column("finish_reason", "TEXT NOT NULL"),
    Column("stop_detail", "TEXT"),
    Column("error_type", "TEXT"),
    Column("prompt_tokens", "INTEGER"),
    Column("cached_tokens", "INTEGER"),
    Column("completion_tokens", "INTEGER"),
    Column("reasoning_tokens", "INTEGER"),
    Column("conductor_hidden_tokens", "INTEGER"),
    Column("engine_cached", "INTEGER"),
    Column("forwarded_tokens", "INTEGER"),
    Column("queue_ms", "REAL"),
    Column("prompt_ms", "REAL"),
    Column("ttft_ms", "REAL"),
    Column("decode_ms", "REAL"),
    Column("total_ms", "REAL NOT NULL"),
    Column("decode_tps", "REAL"),
    Column("prefill_tps", "REAL"),
    Column("blocks", "INTEGER"),
    Column("draft_tokens", "INTEGER"),
    Column("draft_accepted", "INTEGER"),
    Column("tool_calls", "INTEGER"),
    Column("cache_source", "TEXT"),
    Column("max_tokens", "INTEGER"),
    Column("slot", "INTEGER"),
)
COLUMNS = COLUMNS_1

MIGRATIONS: tuple[Migration, ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        f"CREATE TABLE requests (id INTEGER PRIMARY KEY, {', '.join(map(str, COLUMNS_1))})",
        "CREATE INDEX requests_ts ON requests (ts_ms)",
        "CREATE INDEX requests_who ON requests (model, client_id, ts_ms)",
    ),
)
VERSION = len(MIGRATIONS)

_NAMES = tuple(column.name for column in COLUMNS)
INSERT = f"INSERT INTO requests ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})"

_values = attrgetter(*_NAMES)


def row(outcome: Outcome) -> Row:
    """The ledger row of a request."""
    values: Row = _values(outcome)
    return values


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """`BEGIN IMMEDIATE`, then `COMMIT`, or `ROLLBACK` on any exception. The connection is in autocommit mode."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk makes SQLite roll back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate(
    connection: sqlite3.Connection, created: datetime, migrations: Sequence[Migration] = MIGRATIONS
) -> tuple[int, int]:
    """Bring a file that is not newer than `migrations` up to date in one transaction; its version before and after.

    `created` becomes `created_at` of a new file. Raises `sqlite3.Error`, and then the file is as it was.
    """
    version = user_version(connection)
    if version < len(migrations):
        with transaction(connection):
            for statement in _statements(migrations[version:]):
                connection.execute(statement)
            if version == 0:
                connection.execute("INSERT INTO meta VALUES ('created_at', ?)", (created.isoformat(),))
            connection.execute(f"PRAGMA user_version = {len(migrations)}")
    return version, len(migrations)


def user_version(connection: sqlite3.Connection) -> int:
    """How many migrations the file has seen."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _statements(migrations: Iterable[Migration]) -> Iterator[str]:
    for migration in migrations:
        yield from migration
