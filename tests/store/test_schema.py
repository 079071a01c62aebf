from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields

import pytest

from tandem.store.outcome import Outcome
from tandem.store.schema import COLUMNS, INSERT, MIGRATIONS, VERSION, Migration, migrate, row, table_names, user_version
from tests.store.samples import CREATED, outcome

NEXT: Migration = ("ALTER TABLE requests ADD COLUMN mood TEXT", "CREATE INDEX requests_mood ON requests (mood)")
NO_COLUMN = {"draft_s", "verify_s", "images_left_out", "lent_ms"}
"""Fields of an outcome that only the metrics read."""
OF_THE_SPEC = """
id ts_ms request_id model client_id client_kind endpoint stream status finish_reason prompt_tokens cached_tokens
completion_tokens reasoning_tokens queue_ms prompt_ms ttft_ms decode_ms total_ms decode_tps prefill_tps blocks
draft_tokens draft_accepted tool_calls thinking cache_source max_tokens error_type engine_version code_sha
conductor_acts conductor_hidden_tokens conductor_acted model_served conductor_mode profile lane wait_own_ms wait_mem_ms
stop_detail engine_cached forwarded_tokens sampling
"""
OF_AN_EVENT = """
id ts_ms request_id session_key kind task tier sp rule mode decision action reason score text_hash hidden_tokens
position reasoning_cut policy_version profile client_kind class effort outcome next_checker summary detail extra
"""


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]


def indexes(connection: sqlite3.Connection, table: str) -> set[tuple[str, ...]]:
    names = [name for _, name, *_ in connection.execute(f"PRAGMA index_list({table})")]
    return {tuple(column for *_, column in connection.execute(f"PRAGMA index_info({name})")) for name in names}


@pytest.mark.spec("OBS-005")
def test_the_first_version_has_every_column(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    assert set(columns(connection, "requests")) == {*OF_THE_SPEC.split(), "slot"}
    assert set(table_names(connection)) == {"meta", "requests", "conductor_events", "conductor_texts", "usage"}


@pytest.mark.spec("OBS-019", "OBS-020")
def test_columns_and_indexes_of_the_journal(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    assert columns(connection, "conductor_events") == OF_AN_EVENT.split()
    assert columns(connection, "conductor_texts") == ["hash", "text", "tokens", "first_ms"]
    assert indexes(connection, "conductor_events") >= {
        ("ts_ms",),
        ("session_key", "ts_ms"),
        ("kind", "task", "ts_ms"),
        ("request_id",),
    }


def test_each_field_of_an_outcome_has_its_column(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    assert columns(connection, "requests") == ["id", *(column.name for column in COLUMNS)]
    assert {column.name for column in COLUMNS} == {field.name for field in fields(Outcome)} - NO_COLUMN


def test_a_row_holds_the_values_of_the_outcome(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    ended = outcome(7, finish_reason="length", queue_ms=0.5, slot=2, error_type="x", stream=False)
    connection.execute(INSERT, row(ended))
    names = [field.name for field in fields(Outcome) if field.name not in NO_COLUMN]
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
    assert indexes(connection, "requests") >= {("ts_ms",), ("model", "client_id", "ts_ms")}


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


@pytest.mark.spec("OBS-007", "OBS-109")
def test_a_file_that_lacks_something_of_its_version_gets_it(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    whole = sorted(connection.execute("SELECT type, name FROM sqlite_schema"))
    connection.execute(INSERT, row(outcome(profile="chat-app", lane="decode")))
    for column in ("profile", "lane", "code_sha"):
        connection.execute(f"ALTER TABLE requests DROP COLUMN {column}")
    connection.execute("DROP INDEX requests_who")
    for table in ("conductor_events", "conductor_texts", "usage"):
        connection.execute(f"DROP TABLE {table}")
    assert migrate(connection, CREATED) == (1, 1)
    assert sorted(connection.execute("SELECT type, name FROM sqlite_schema")) == whole
    assert connection.execute("SELECT request_id, profile, lane, code_sha FROM requests").fetchall() == [
        ("req-0", None, None, None)
    ]
    connection.execute(INSERT, row(outcome(1)))
    before = connection.total_changes
    migrate(connection, CREATED)
    assert connection.total_changes == before


def test_a_whole_file_is_opened_without_a_write(connection: sqlite3.Connection) -> None:
    migrate(connection, CREATED)
    connection.execute("PRAGMA query_only = ON")
    assert migrate(connection, CREATED) == (1, 1)
