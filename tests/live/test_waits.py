"""Why somebody waits, and for how long yet: in the line, in the side lane, behind own work, for memory."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.live.event import Reason
from tandem.live.line import Why
from tests.live.samples import PREFILLING, QUEUED, WRITING, Shown

GIB = 1 << 30


def behind_a_writer(**facts: Any) -> Shown:
    """`first` has been writing for 12 seconds at second 15, `second` waits."""
    shown = Shown()
    shown.begin("first")
    shown.becomes("first", **WRITING)
    shown.event(3.0)
    shown.begin("second", client_kind="curl", endpoint="completions")
    shown.becomes("second", **QUEUED, **facts)
    shown.line("second")
    return shown


@pytest.mark.spec("SCH-104", "SCH-028", "OBS-066")
@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("running", "waits: next in line behind opencode's chat, which has been writing for 12 s; about 30 s to go"),
        (
            "side",
            "waits: next in line, a client's side request runs first: opencode's chat, which has been writing for 12 s"
            "; about 30 s to go",
        ),
        ("own", "waits: next in line, the service finishes its background work first; about 30 s to go"),
        ("deciding", "waits: next in line, the service is deciding how to handle it; about 30 s to go"),
    ],
)
def test_the_reason_and_the_estimate_are_told(reason: Reason, label: str) -> None:
    shown = behind_a_writer()
    shown.whys(second=Why(reason, 24.6, "about 30 s"))
    activity = shown.activity(15.0, "second")
    assert activity["label"] == label
    queue = activity["queue"]
    assert (queue["reason"], queue["estimate_s"], queue["is_lane"], queue["missing_bytes"]) == (
        reason,
        24.6,
        False,
        None,
    )
    assert (queue["place"], queue["timeout_s"], queue["holder"]["slot"]) == (1, 240, 0)


@pytest.mark.spec("SCH-104", "SCH-028")
def test_own_work_is_named_and_who_waits_behind_it_is_told_so() -> None:
    shown = Shown()
    shown.view.sharing.own_seen("summary", 4.0)
    engine = shown.event(5.0)["engine"]
    assert engine["label"] == "idle: no request runs, the service prepares a summary ahead"
    own = {"name": "summary", "label": "the service prepares a summary ahead", "since_ms": 1000}
    assert engine["own_work"] == own
    shown.begin("r1", **QUEUED)
    shown.line("r1")
    shown.whys(r1=Why("own", 2.0, "about 2 s"))
    event = shown.event(6.0)
    assert event["engine"]["label"] == "the service prepares a summary ahead and yields at its next chunk; 1 waiting"
    assert event["requests"][0]["activity"]["label"] == (
        "waits: next in line, the service finishes its background work first (prepares a summary ahead)"
        "; about 2 s to go"
    )
    shown.view.sharing.own_seen(None, 6.5)
    assert shown.event(7.0)["engine"]["own_work"] is None


def test_own_work_without_a_name_here_is_shown_by_its_own() -> None:
    shown = Shown()
    shown.view.sharing.own_seen("probe", 0.0)
    assert shown.event(1.0)["engine"]["own_work"]["label"] == "the service runs a probe"


@pytest.mark.spec("SCH-104", "SCH-039")
def test_a_lane_job_waits_for_a_step_of_its_holder_and_a_guest_stands_under_it() -> None:
    shown = behind_a_writer()
    shown.begin("job", client_kind="open-webui")
    shown.becomes("job", **QUEUED)
    shown.whys("job")
    event = shown.event(15.0)
    assert [row["request_id"] for row in event["requests"]] == ["first", "job", "second"]
    assert event["counts"]["lane"] == 1
    activity = event["requests"][1]["activity"]
    assert activity["label"] == "waits: next in the side lane, to be served between two steps of opencode's chat"
    assert (activity["queue"]["is_lane"], activity["queue"]["place"], activity["queue"]["of"]) == (True, 1, 1)
    shown.becomes("job", **{**PREFILLING, "granted_at": 15.0}, lane="decode")
    shown.whys()
    event = shown.event(15.1)
    assert [row["request_id"] for row in event["requests"]] == ["first", "job", "second"]
    guest = event["requests"][1]
    assert (guest["lane"], guest["slot"], event["counts"]["lane"]) == ("decode", 0, 0)
    assert guest["activity"]["label"] == "reads the prompt: 0 of 1,200 tokens, between two steps of opencode's chat"
    assert event["engine"]["label"] == "opencode's chat writes: 1 token; 1 short request between its steps"
    assert event["requests"][2]["activity"]["queue"]["holder"]["request_id"] == "first"


@pytest.mark.spec("SCH-104", "SCH-073")
def test_a_wait_for_memory_says_how_much_is_missing() -> None:
    shown = Shown(slots=2)
    shown.begin("first", **PREFILLING)
    shown.begin("short", client_kind="curl", **QUEUED, slot=1, missing=3 * GIB // 2)
    shown.begin("waits", **QUEUED)
    shown.line("waits")
    event = shown.event(3.0)
    assert [row["request_id"] for row in event["requests"]] == ["first", "short", "waits"]
    row = event["requests"][1]
    assert (row["phase"], row["slot"], row["activity"]["state"]) == ("queued", 1, "queued")
    assert row["activity"]["label"] == "waits for memory: 1.5 GiB short, next of those who lack it"
    queue = row["activity"]["queue"]
    assert (queue["reason"], queue["missing_bytes"], queue["place"], queue["of"]) == ("memory", 3 * GIB // 2, 1, 1)


def test_without_activity_nothing_of_it_is_told() -> None:
    shown = Shown(shows_activity=False, slots=2)
    shown.view.sharing.own_seen("summary", 0.0)
    event = shown.event(1.0)
    assert (event["engine"]["label"], event["engine"]["own_work"]) == ("idle: nothing runs", None)
    assert [slot["label"] for slot in event["parallel"]["slots"]] == ["own", "idle"]
