"""Ledgers in memory, as the store writes them, and what a query makes of one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from tandem.store.buckets import upserts
from tandem.store.outcome import Outcome
from tandem.store.query import Query
from tandem.store.schema import EVENTS, INSERT, insert, migrate, row
from tests.store.samples import CREATED

T = TypeVar("T")

INSERT_EVENT = insert("conductor_events", EVENTS)


def new_ledger(*outcomes: Outcome, batch: int = 3) -> sqlite3.Connection:
    """A ledger with a row for each request, written in groups of `batch`."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, CREATED)
    for start in range(0, len(outcomes), batch):
        write(connection, outcomes[start : start + batch])
    return connection


def write(connection: sqlite3.Connection, outcomes: Iterable[Outcome]) -> None:
    """One group."""
    group = list(outcomes)
    connection.executemany(INSERT, map(row, group))
    for sql, rows in upserts(group):
        connection.executemany(sql, rows)


def write_events(connection: sqlite3.Connection, *events: Mapping[str, Any]) -> None:
    """Journal rows; what a row does not name is null."""
    connection.executemany(
        INSERT_EVENT,
        [[{"ts_ms": 0, "kind": "route", **event}.get(column.name) for column in EVENTS] for event in events],
    )


def ask(connection: sqlite3.Connection, query: Query[T]) -> T:
    """The answer, by a connection that may not write."""
    connection.execute("PRAGMA query_only = ON")
    try:
        return query.fold([connection.execute(each.sql, each.params).fetchall() for each in query.statements])
    finally:
        connection.execute("PRAGMA query_only = OFF")


def plans(connection: sqlite3.Connection, query: Query[Any]) -> list[str]:
    """How SQLite goes about each statement, step by step."""
    return [
        step
        for each in query.statements
        for _, _, _, step in connection.execute(f"EXPLAIN QUERY PLAN {each.sql}", each.params)
    ]
