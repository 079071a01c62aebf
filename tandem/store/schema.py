"""The ledger's tables: one list of columns, the SQL made from it, and the migrations (OBS-005 to OBS-007).

The schema's version is SQLite's `user_version`, the number of migrations that a file has seen. A new column goes into a
tuple of its own, which a new migration adds to the table and `REQUESTS` appends; a published migration never changes.

A file can also be at the code's version and lack something: a backup has no journal, and a file of a time before the
first release lacks columns. What is missing is added when the file is opened (OBS-109).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from tandem.store import buckets
from tandem.store.outcome import Outcome

__all__ = [
    "COLUMNS",
    "EVENTS",
    "INSERT",
    "MIGRATIONS",
    "VERSION",
    "Column",
    "Migration",
    "Row",
    "insert",
    "migrate",
    "row",
    "table_names",
    "transaction",
    "user_version",
]

Row = tuple[Any, ...]
"""The values of a row's columns, in their order."""
Migration = tuple[str, ...]
"""Statements that bring a file from one version to the next."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and of what type; in `requests` it has the name of the field of `Outcome` that fills it."""

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
    Column("profile", "TEXT"),
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
    Column("conductor_acts", "INTEGER"),
    Column("conductor_acted", "INTEGER"),
    Column("conductor_hidden_tokens", "INTEGER"),
    Column("engine_cached", "INTEGER"),
    Column("forwarded_tokens", "INTEGER"),
    Column("lane", "TEXT"),
    Column("wait_own_ms", "REAL"),
    Column("wait_mem_ms", "REAL"),
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
    Column("thinking", "TEXT"),
    Column("sampling", "TEXT"),
    Column("cache_source", "TEXT"),
    Column("max_tokens", "INTEGER"),
    Column("slot", "INTEGER"),
    Column("engine_version", "TEXT"),
    Column("code_sha", "TEXT"),
)
COLUMNS = COLUMNS_1
"""Of `requests`, behind its `id`."""

EVENTS_1 = (
    Column("ts_ms", "INTEGER NOT NULL"),
    Column("request_id", "TEXT"),
    Column("session_key", "TEXT"),
    Column("kind", "TEXT NOT NULL"),
    Column("task", "TEXT"),
    Column("tier", "INTEGER"),
    Column("sp", "TEXT"),
    Column("rule", "TEXT"),
    Column("mode", "TEXT"),
    Column("decision", "TEXT"),
    Column("action", "TEXT"),
    Column("reason", "TEXT"),
    Column("score", "REAL"),
    Column("text_hash", "TEXT"),
    Column("hidden_tokens", "INTEGER"),
    Column("position", "INTEGER"),
    Column("reasoning_cut", "INTEGER"),
    Column("policy_version", "INTEGER"),
    Column("profile", "TEXT"),
    Column("client_kind", "TEXT"),
    Column("class", "TEXT"),
    Column("effort", "TEXT"),
    Column("outcome", "TEXT"),
    Column("next_checker", "TEXT"),
    Column("summary", "TEXT"),
    Column("detail", "TEXT"),
    Column("extra", "TEXT"),
)
EVENTS = EVENTS_1
"""Of `conductor_events`, behind its `id` (OBS-019)."""


def _table(name: str, columns: Iterable[Column]) -> str:
    return f"CREATE TABLE IF NOT EXISTS {name} (id INTEGER PRIMARY KEY, {', '.join(map(str, columns))})"


def _index(table: str, name: str, *columns: str) -> str:
    return f"CREATE INDEX IF NOT EXISTS {table}_{name} ON {table} ({', '.join(columns)})"


JOURNAL = (
    _table("conductor_events", EVENTS_1),
    _index("conductor_events", "ts", "ts_ms"),
    _index("conductor_events", "session", "session_key", "ts_ms"),
    _index("conductor_events", "task", "kind", "task", "ts_ms"),
    _index("conductor_events", "request", "request_id"),
    "CREATE TABLE IF NOT EXISTS conductor_texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL, tokens INTEGER, "
    "first_ms INTEGER NOT NULL) WITHOUT ROWID",
)
MIGRATIONS: tuple[Migration, ...] = (
    (
        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        _table("requests", COLUMNS_1),
        _index("requests", "ts", "ts_ms"),
        _index("requests", "who", "model", "client_id", "ts_ms"),
        *JOURNAL,
        *buckets.TABLES,
    ),
)
VERSION = len(MIGRATIONS)
WHOLE = {"requests": COLUMNS, "conductor_events": EVENTS}
"""Tables that get the columns they lack."""

_values = attrgetter(*(column.name for column in COLUMNS))


def insert(table: str, columns: Sequence[Column]) -> str:
    """The statement that adds a row with these columns."""
    names = [column.name for column in columns]
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


INSERT = insert("requests", COLUMNS)


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
    if version < len(migrations) or any(_missing(connection, migrations)):
        with transaction(connection):
            for statement in _statements(migrations[version:]):
                connection.execute(statement)
            if version == 0:
                connection.execute("INSERT INTO meta VALUES ('created_at', ?)", (created.isoformat(),))
            for statement in list(_missing(connection, migrations)):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(migrations)}")
    return version, len(migrations)


def user_version(connection: sqlite3.Connection) -> int:
    """How many migrations the file has seen."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def table_names(connection: sqlite3.Connection) -> list[str]:
    """The file's tables, without SQLite's own."""
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    return [name for (name,) in connection.execute(sql)]


def _missing(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> Iterator[str]:
    """Statements that add the tables, columns and indexes that the file's version has and the file has not.

    A column goes before the indexes, which may need it.
    """
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    absent = [sql for sql in _statements(migrations) if (made := _made_by(sql)) is not None and made not in there]
    yield from (sql for sql in absent if sql.startswith("CREATE TABLE"))
    for table, columns in WHOLE.items():
        # A table that is not there yet is made whole.
        known = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
        lacks = [column for column in columns if known and column.name not in known]
        yield from (f"ALTER TABLE {table} ADD COLUMN {column}" for column in lacks)
    yield from (sql for sql in absent if sql.startswith("CREATE INDEX"))


def _made_by(sql: str) -> str | None:
    found = re.match(r"CREATE (?:TABLE|INDEX) IF NOT EXISTS (\w+)", sql)
    return found and found[1]


def _statements(migrations: Iterable[Migration]) -> Iterator[str]:
    for migration in migrations:
        yield from migration
