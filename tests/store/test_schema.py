from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields

import pytest

from tandem.store.outcome import Outcome
from tandem.store.schema import COLUMNS, INSERT, MIGRATIONS, VERSION, Migration, migrate, row, user_version
from tests.store.samples import CREATED, outcome

NEXT: Migration = ("ALTER TABLE requests ADD COLUMN lane TEXT", "CREATE INDEX requests_lane ON requests (lane)")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def test_each_field_of_an_outcome_has_its_column(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    in_file = [name for _, name, *_ in connection.execute("PRAGMA table_info(requests)")]
    assert in_file == ["id", *(column.name for column in COLUMNS)]
    assert {column.name for column in COLUMNS} == {field.name for field in fields(Outcome)}


def test_a_row_holds_the_values_of_the_outcome(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    ended = outcome(7, finish_reason="length", queue_ms=0.5, slot=2, error_type="x", stream=False)
    connection.execute(INSERT, row(ended))
    names = [field.name for field in fields(Outcome)]
    (stored,) = connection.execute(f"SELECT {', '.join(names)} FROM requests").fetchall()
    assert dict(zip(names, stored, strict=True)) == {name: getattr(ended, name) for name in names}


@pytest.mark.spec("OBS-003")
def test_a_refusal_and_a_rejection_are_rows_without_tokens(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    for status in (503, 429, 400):
        refused = outcome(
            status, status=status, finish_reason="refused", prompt_tokens=None, completion_tokens=None, error_type="x"
        )
        connection.execute(INSERT, row(refused))
    tokens = ", ".join(column.name for column in COLUMNS if column.name.endswith("_tokens"))
    rows = connection.execute(f"SELECT status, {tokens} FROM requests").fetchall()
    assert [status for status, *_ in rows] == [503, 429, 400]
    assert {count for _, *counts in rows for count in counts} == {None}


@pytest.mark.spec("OBS-006")
def test_indexes_version_and_time_of_creation(connection: sqlite3.Connection) -> None:
    assert migrate(connection, CREATED) == (0, 1)
    assert user_version(connection) == VERSION == 1
    assert connection.execute("SELECT value FROM meta WHERE key = 'created_at'").fetchone() == (CREATED.isoformat(),)
    indexes = [name for _, name, *_ in connection.execute("PRAGMA index_list(requests)")]
    columns = {tuple(column for *_, column in connection.execute(f"PRAGMA index_info({name})")) for name in indexes}
    assert columns == {("ts_ms",), ("model", "client_id", "ts_ms")}


@pytest.mark.spec("OBS-007")
def test_an_older_file_is_migrated_in_place_and_keeps_its_rows(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    for number in range(3):
        connection.execute(INSERT, row(outcome(number)))
    before = connection.execute("SELECT * FROM requests").fetchall()
    assert migrate(connection, CREATED, (*MIGRATIONS, NEXT)) == (1, 2)
    assert connection.execute("SELECT * FROM requests").fetchall() == [(*old, None) for old in before]
    assert migrate(connection, CREATED, (*MIGRATIONS, NEXT)) == (2, 2)


@pytest.mark.spec("OBS-007")
def test_a_migration_that_fails_leaves_the_file_as_it_was(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    connection.execute(INSERT, row(outcome()))
    before = list(connection.iterdump())
    with pytest.raises(sqlite3.Error):
        migrate(connection, CREATED, (*MIGRATIONS, NEXT, ("ALTER TABLE nothing ADD COLUMN x",)))
    assert user_version(connection) == 1
    assert list(connection.iterdump()) == before
