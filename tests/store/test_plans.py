"""How SQLite finds what is asked for: no question goes through a whole table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tandem.store.journal_reads import Events, decisions_query, events_query, session_query, sessions_query
from tandem.store.query import Query
from tandem.store.requests import Wanted, page_query
from tandem.store.spans import day_spans
from tandem.store.usage import Filters, summary_query, usage_query
from tests.store.ledgers import new_ledger, plans

ZONE = ZoneInfo("UTC")
SPANS = day_spans(date(2026, 1, 1), date(2026, 3, 31), ZONE)


def usage_questions() -> Iterator[Query[Any]]:
    yield summary_query(datetime(2026, 1, 1, tzinfo=UTC), ZONE)
    for model, client in product((None, "a"), (None, "k:1")):
        yield usage_query(SPANS, ZONE, Filters(model=model, client=client))


def pages() -> Iterator[Query[Any]]:
    for model, client, finish, request_id, before in product(
        (None, "a"), (None, "k:1"), (None, "stop"), (None, "r"), (None, 7)
    ):
        wanted = Wanted(model=model, client=client, finish=finish, request_id=request_id, before=before)
        yield page_query(wanted, 50)
    texts = (None, "x")
    for kind, task, session, mode, request_id, since in product(texts, texts, texts, texts, texts, (None, 1)):
        wanted_rows = Events(kind=kind, task=task, session=session, mode=mode, request_id=request_id, since=since)
        yield events_query(wanted_rows, 50)
    for session, before in product(texts, (None, 7)):
        yield decisions_query(session, before, 50)


def of_sessions() -> Iterator[Query[Any]]:
    yield sessions_query(50)
    yield session_query("c:a", 50)


TABLES = ("requests", "conductor_events", "usage")


@pytest.mark.spec("OBS-100", "OBS-088")
def test_no_question_reads_a_whole_table() -> None:
    ledger = new_ledger()
    for query in (*usage_questions(), *pages(), *of_sessions()):
        for step in plans(ledger, query):
            assert not any(step.startswith(f"SCAN {table}") for table in TABLES), (query.statements, step)


@pytest.mark.spec("OBS-100")
def test_usage_reads_no_row_of_a_request() -> None:
    ledger = new_ledger()
    for query in usage_questions():
        assert not any("requests" in step.split() for step in plans(ledger, query))


def test_pages_come_out_of_their_index_in_order() -> None:
    """Sorting would read all that match before the first row; a session and the decisions' halves have few."""
    ledger = new_ledger()
    for query in pages():
        if not any("session_key = ?" in each.sql or "UNION ALL" in each.sql for each in query.statements):
            assert not any("TEMP B-TREE" in step for step in plans(ledger, query)), query.statements
