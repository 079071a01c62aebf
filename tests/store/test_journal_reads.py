"""Rows of the journal by filter, the decisions feed, sessions and timelines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tandem.conductor.monitor.events import BOOKKEEPING
from tandem.store import journal as columns
from tandem.store.journal_overview import overview_query
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
        ({"kind": "monitor", "findings": True}, [5, 3]),
        ({"findings": True, "before": 6}, [5, 4, 3, 2, 1]),
        ({"before": 3}, [2, 1]),
    ],
)
def test_events_by_filter(wanted: dict[str, Any], found: list[int]) -> None:
    rows = [*ROWS, {"ts_ms": 0, "kind": "monitor", "decision": "OUTCOME"}] if "findings" in wanted else ROWS
    page = ask(journal(*rows), events_query(Events(**wanted), 10))
    assert [event["id"] for event in page.events] == found
    assert page.next_before is None


def test_the_store_knows_the_monitors_bookkeeping() -> None:
    assert columns.BOOKKEEPING == BOOKKEEPING, "neither may import the other"


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
    none = {"profile": None, "client_kind": None, "prompt_tokens": None}
    first = none | {"key": "c:b", "first_ms": 40, "last_ms": 40, "events": 1, "requests": 1, "routes": 1, "findings": 0}
    second = none | {
        "key": "c:a",
        "first_ms": 20,
        "last_ms": 35,
        "events": 3,
        "requests": 1,
        "routes": 1,
        "findings": 2,
    }
    assert ask(ledger, sessions_query(10)) == [first | {"hidden_tokens": 0}, second | {"hidden_tokens": 5}]
    assert ask(journal(), sessions_query(10)) == []


@pytest.mark.spec("SES-008")
def test_a_session_is_as_its_newest_turn_says() -> None:
    turns = (
        {"ts_ms": 1, "profile": "chat", "client_kind": "anon", "detail": '{"prompt_tokens": 9}'},
        {"ts_ms": 3, "profile": "coding", "client_kind": "opencode", "detail": '{"prompt_tokens": 70}'},
        {"ts_ms": 2, "profile": "late", "client_kind": "anon", "detail": "{broken"},
        {"ts_ms": 4, "kind": "side", "profile": "chat", "client_kind": "webui"},
    )
    ledger = journal(*({"session_key": "c:a"} | turn for turn in turns), {"session_key": "c:b", "detail": "{broken"})
    newest = {"profile": "coding", "client_kind": "opencode", "prompt_tokens": 70}
    first, second = ask(ledger, sessions_query(10))
    assert {name: first[name] for name in newest} == newest
    assert (second["key"], second["prompt_tokens"]) == ("c:b", None)
    found = ask(ledger, session_query("c:a", 10))
    assert found is not None
    assert {name: found.figures[name] for name in newest} == newest


@pytest.mark.spec("OBS-086")
def test_the_overview_counts_a_day_and_a_week_without_side_rows() -> None:
    hour, now = 3_600_000, 1_000 * 3_600_000
    off = '{"client_thinking": {"field": "x"}}'
    rows = (
        {"ts_ms": now - hour, "mode": "on", "class": "debug", "effort": "high", "hidden_tokens": 10},
        {"ts_ms": now - hour, "mode": "on", "class": "debug", "effort": "high", "extra": off},
        {"ts_ms": now - 30 * hour, "mode": "shadow", "class": "chat", "extra": "{broken"},
        {"ts_ms": now - 200 * hour, "mode": "on", "class": "chat"},
        {"ts_ms": now - hour, "kind": "side", "mode": "on", "hidden_tokens": 99},
        {
            "ts_ms": now - hour,
            "kind": "monitor",
            "task": "C3",
            "mode": "act",
            "action": "REPAIR_CALL",
            "hidden_tokens": 5,
        },
        {"ts_ms": now - hour, "kind": "monitor", "task": "C3", "mode": "act", "action": "PASS"},
        {"ts_ms": now - 30 * hour, "kind": "monitor", "task": "C3", "mode": "shadow"},
        {"ts_ms": now - 30 * hour, "kind": "monitor", "task": "D1", "mode": "act", "action": "GIVE_UP"},
        {"ts_ms": now - hour, "kind": "monitor", "task": "request", "mode": "act", "decision": "OUTCOME"},
    )
    found = ask(journal(*rows), overview_query(now))
    day, week = found["day"], found["week"]
    assert (day["requests"], week["requests"], day["hidden_tokens"]) == (2, 3, 15)
    assert day["efforts"] == [{"name": "high", "count": 1}, {"name": "off (client)", "count": 1}]
    assert week["classes"] == [{"name": "debug", "count": 2}, {"name": "chat", "count": 1}]
    assert week["modes"] == [{"name": "on", "count": 2}, {"name": "shadow", "count": 1}]
    assert (day["findings"], day["acted"], day["gave_up"]) == (2, 1, 0)
    assert (week["findings"], week["acted"], week["gave_up"]) == (4, 2, 1)
    assert week["tasks"] == [
        {"task": "C3", "findings": 3, "acted": 1, "shadow": 1, "hidden_tokens": 5},
        {"task": "D1", "findings": 1, "acted": 1, "shadow": 0, "hidden_tokens": 0},
    ]
    named = [row | {"profile": "tools" if row.get("task") == "D1" else "chat"} for row in rows]
    tools = ask(journal(*named), overview_query(now, "tools"))["week"]
    assert (tools["requests"], [one["task"] for one in tools["tasks"]]) == (0, ["D1"])
    assert ask(journal(*named), overview_query(now)) == found
    empty = ask(journal(), overview_query(now))
    assert (empty["day"], empty["week"]["tasks"]) == (empty["week"], [])


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
