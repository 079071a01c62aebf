"""The journal over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest
import trio.testing

import tandem
from tandem.actors.store import Flush, Journal
from tandem.store.journal import HiddenText, JournalRow
from tests.service.harness import Harness, open_harness

CONTRACT = Path(tandem.__file__).parent / "contract"
EVENTS, DECISIONS, OVERVIEW, SESSIONS = (
    f"/v1/conductor/{name}" for name in ("events", "decisions", "overview", "sessions")
)
SECRET = HiddenText.of("MARKED NOTE OF THE CONDUCTOR", 6)
KEY = "c:a/b c"
ROWS = (
    JournalRow(ts_ms=10, kind="side", request_id="r1", session_key=KEY, mode="on", detail={"shape": "title"}),
    JournalRow(
        ts_ms=20,
        kind="route",
        request_id="r2",
        session_key=KEY,
        mode="on",
        class_="code",
        effort="high",
        detail={"thinking": "off_client"},
        extra={"client_thinking": {"field": "enable_thinking", "class_effort": "high"}},
    ),
    JournalRow(
        ts_ms=30,
        kind="monitor",
        request_id="r2",
        session_key=KEY,
        mode="shadow",
        task="C3",
        tier=0,
        score=0.5,
        text_hash=SECRET.hash,
        hidden_tokens=6,
    ),
    JournalRow(ts_ms=40, kind="route", request_id="r3", session_key="c:z", mode="shadow"),
)


def validate(name: str, body: Any) -> None:
    schema = json.loads((CONTRACT / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(body)


async def get(harness: Harness, path: str, status: int = 200) -> Any:
    call = await harness.client.send(path)
    assert call.status == status, call.json
    return call.json


async def fill(harness: Harness) -> None:
    await harness.service.context.store.tell(Journal(ROWS, (SECRET,)))
    await harness.service.context.store.ask(Flush)


@pytest.mark.spec("OBS-075")
@pytest.mark.parametrize("name", ["events", "decisions", "overview", "sessions", "session"])
def test_examples_keep_the_contract(name: str) -> None:
    example = (CONTRACT / "examples" / f"conductor-{name}.json").read_text("utf-8")
    validate(f"conductor-{name}", json.loads(example))


@pytest.mark.spec("API-232")
async def test_without_a_conductor_there_are_no_routes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for path in (EVENTS, DECISIONS, OVERVIEW, SESSIONS, f"{SESSIONS}/c:a", f"{EVENTS}?nonsense=1"):
            assert "start the server with --conductor-config" in (await get(harness, path, 404))["error"]["message"]


@pytest.mark.spec("OBS-030", "OBS-112", "API-236", "API-250", "OBS-116", "OBS-075", "JRN-001", "JRN-007")
@pytest.mark.parametrize("with_ledger", [True, False])
async def test_the_journal_is_read(autojump_clock: trio.testing.MockClock, tmp_path: Path, with_ledger: bool) -> None:
    ledger = tmp_path / "ledger.sqlite3" if with_ledger else None
    async with open_harness(ledger=ledger, conductor_config=tmp_path) as harness:
        await fill(harness)
        events = await get(harness, f"{EVENTS}?limit=3")
        assert [event["ts_ms"] for event in events["events"]] == [40, 30, 20]
        older = await get(harness, f"{EVENTS}?before={events['next_before']}")
        own = [event for event in older["events"] if event["kind"] != "config"]  # the first start stores documents
        assert ([event["ts_ms"] for event in own], older["next_before"]) == ([10], None)
        for query, times in (
            ("kind=route", [40, 20]),
            ("task=C3", [30]),
            (f"session={quote(KEY)}", [30, 20, 10]),
            ("mode=shadow&since=31", [40]),
            ("request_id=r2", [30, 20]),
        ):
            assert [event["ts_ms"] for event in (await get(harness, f"{EVENTS}?{query}"))["events"]] == times
        decisions = await get(harness, f"{DECISIONS}?session={quote(KEY)}")
        shown = [(event["kind"], event["thinking"], event["effort"]) for event in decisions["decisions"]]
        assert shown == [("route", "off (client)", None), ("side", None, None)]
        sessions = await get(harness, SESSIONS)
        assert [session["key"] for session in sessions["sessions"]] == ["c:z", KEY]
        assert sessions["sessions"][1]["events"] == 2  # its side row is none of them
        timeline = await get(harness, f"{SESSIONS}/{KEY}")
        assert [event["kind"] for event in timeline["events"]] == ["side", "route", "monitor"]
        assert timeline["events"][2]["text_hash"] == SECRET.hash
        exported = await harness.client.send(f"{SESSIONS}/{KEY}/export?format=md")
        assert SECRET.text in exported.body.decode().partition("### hidden text at token")[2]
        overview = await get(harness, OVERVIEW)
        assert overview["day"]["requests"] == 0  # the rows are of 1970
        bodies = {
            "overview": overview,
            "events": events,
            "decisions": decisions,
            "sessions": sessions,
            "session": timeline,
        }
        for name, body in bodies.items():
            validate(f"conductor-{name}", body)
        assert "MARKED" not in json.dumps(bodies)
        assert (await get(harness, f"{SESSIONS}/c:nobody", 404))["error"]["type"] == "not_found"


@pytest.mark.spec("OBS-101")
async def test_bad_values_name_their_parameter(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path) as harness:
        for path, param in (
            (f"{EVENTS}?limit=501", "limit"),
            (f"{EVENTS}?since=monday", "since"),
            (f"{DECISIONS}?kind=route", "kind"),
            (f"{DECISIONS}?before=0", "before"),
            (f"{SESSIONS}?before=1", "before"),
            (f"{SESSIONS}/c:a?limit=1", "limit"),
        ):
            assert (await get(harness, path, 400))["error"]["param"] == param, path
