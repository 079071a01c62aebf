"""Rows of the journal by filter, the decisions feed, sessions and timelines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tandem.store.journal_reads import Events, decisions_query, events_query, session_query, sessions_query
from tests.store.ledgers import ask, new_ledger, write_events


def journal(*events: dict[str, Any]) -> Any:
    connection = new_ledger()
    write_events(connection, *events)
    return connection


ROWS = (
    {"ts_ms": 10, "session_key": "c:a", "kind": "side", "request_id": "r1", "mode": "on"},
    {"ts_ms": 20, "session_key": "c:a", "kind": "route", "request_id": "r2", "mode": "on"},
    {"ts_ms": 30, "session_key": "c:a", "kind": "monitor", "task": "C3", "request_id": "r2", "hidden_tokens": 5},
    {"ts_ms": 40, "session_key": "c:b", "kind": "route", "request_id": "r3", "mode": "shadow"},
    {"ts_ms": 35, "session_key": "c:a", "kind": "monitor", "task": "D3", "request_id": "r2", "mode": "shadow"},
    {"ts_ms": 60, "session_key": "c:side", "kind": "side", "request_id": "r4", "mode": "on"},
    {"ts_ms": 70, "kind": "config"},
)


@pytest.mark.spec("OBS-030", "API-236")
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [7, 6, 5, 4, 3, 2, 1]),
        ({"kind": "monitor"}, [5, 3]),
        ({"kind": "monitor", "task": "C3"}, [3]),
        ({"task": "D3"}, [5]),
        ({"session": "c:a"}, [5, 3, 2, 1]),
        ({"session": "c:a", "kind": "route"}, [2]),
        ({"mode": "shadow"}, [5, 4]),
        ({"request_id": "r2"}, [5, 3, 2]),
        ({"since": 35}, [7, 6, 5, 4]),
        ({"since": 36, "mode": "shadow"}, [4]),
        ({"since": 71}, []),
        ({"before": 3}, [2, 1]),
    ],
)
def test_events_by_filter(wanted: dict[str, Any], found: list[int]) -> None:
    page = ask(journal(*ROWS), events_query(Events(**wanted), 10))
    assert [event["id"] for event in page.events] == found
    assert page.next_before is None


@pytest.mark.spec("OBS-030", "API-250")
def test_decisions_are_route_and_side_rows() -> None:
    ledger = journal(*ROWS)
    page = ask(ledger, decisions_query(None, None, 2))
    assert [(event["id"], event["kind"]) for event in page.events] == [(6, "side"), (4, "route")]
    assert page.next_before == 4
    rest = ask(ledger, decisions_query(None, page.next_before, 2))
    assert ([event["id"] for event in rest.events], rest.next_before) == ([2, 1], None)
    of_session = ask(ledger, decisions_query("c:a", None, 10))
    assert [event["id"] for event in of_session.events] == [2, 1]


@pytest.mark.spec("OBS-030")
def test_sessions_are_counted_without_their_side_rows() -> None:
    ledger = journal(*ROWS)
    first = {"key": "c:b", "first_ms": 40, "last_ms": 40, "events": 1, "requests": 1, "routes": 1, "findings": 0}
    second = {"key": "c:a", "first_ms": 20, "last_ms": 35, "events": 3, "requests": 1, "routes": 1, "findings": 2}
    assert ask(ledger, sessions_query(10)) == [first | {"hidden_tokens": 0}, second | {"hidden_tokens": 5}]
    assert ask(journal(), sessions_query(10)) == []


@pytest.mark.spec("OBS-030", "API-236")
def test_a_timeline_is_in_the_order_of_time() -> None:
    ledger = journal(*ROWS)
    found = ask(ledger, session_query("c:a", 10))
    assert found is not None
    assert [event["id"] for event in found.events] == [1, 2, 3, 5]
    assert (found.figures["events"], found.cut) == (3, False)
    newest = ask(ledger, session_query("c:a", 2))
    assert newest is not None
    assert ([event["id"] for event in newest.events], newest.cut) == ([3, 5], True)
    side = ask(ledger, session_query("c:side", 2))
    assert side is not None
    assert (side.figures["events"], len(side.events)) == (0, 1)
    assert ask(ledger, session_query("c:nobody", 2)) is None


@pytest.mark.spec("OBS-116")
def test_thinking_that_a_client_turned_off_shows_no_level() -> None:
    off = {"effort": "high", "detail": '{"thinking": "off_client"}', "extra": '{"client_thinking": {"field": "x"}}'}
    on = {"effort": "high", "detail": '{"thinking": "on"}', "extra": "{}"}
    ledger = journal(*({"session_key": "c:a"} | row for row in (off, on, {"effort": "low"})))
    for events in (
        ask(ledger, decisions_query(None, None, 5)).events,
        list(reversed(getattr(ask(ledger, session_query("c:a", 5)), "events", []))),
    ):
        assert [(event["thinking"], event["effort"]) for event in events] == [
            (None, "low"),
            ("on", "high"),
            ("off (client)", None),
        ]


def test_hidden_text_stays_where_it_is() -> None:
    ledger = journal({"session_key": "c:a", "text_hash": "f00", "hidden_tokens": 3})
    ledger.execute("INSERT INTO conductor_texts VALUES ('f00', 'SECRET NOTE', 3, 0)")
    found = ask(ledger, session_query("c:a", 5))
    assert found is not None
    assert (found.events[0]["text_hash"], found.events[0]["hidden_tokens"]) == ("f00", 3)
    assert "SECRET" not in json.dumps([found.events, ask(ledger, events_query(Events(), 5)).events])


def test_a_column_that_is_no_object_is_null() -> None:
    page = ask(journal({"detail": "{broken", "extra": "[1]"}), events_query(Events(), 5))
    assert (page.events[0]["detail"], page.events[0]["extra"]) == (None, None)
