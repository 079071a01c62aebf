"""The `parallel` part of the document: who is in which slot, and what the slots share (OBS-085)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.samples import PREFILLING, QUEUED, WRITING, Shown, outcome

GIB = 1 << 30


def slots(shown: Shown, now: float) -> list[Any]:
    found: list[Any] = shown.event(now)["parallel"]["slots"]
    return found


@pytest.mark.spec("OBS-063", "OBS-085")
def test_with_one_slot_there_is_no_such_part() -> None:
    assert "parallel" not in Shown().event(1.0)


@pytest.mark.spec("OBS-085", "SCH-104")
def test_each_slot_tells_its_request_and_what_that_does() -> None:
    shown = Shown(slots=4)
    shown.begin("a")
    shown.becomes("a", **WRITING)
    shown.begin("b", client_kind="curl", endpoint="completions")
    shown.becomes("b", **{**PREFILLING, "granted_at": 2.0, "slot": 2})
    shown.begin("c", **QUEUED, slot=1, missing=GIB)
    shown.view.sharing.slot_seen(3, gone=True)
    shown.view.sharing.turn_seen((0, 2), 7)
    shown.view.sharing.rounds_seen({0: 1.2344, 2: 0.5}, {2: 40, 3: 1}, {})
    assert [(each["state"], each["request_id"], each["gpu_s"]) for each in slots(shown, 4.0)] == [
        ("writing", "a", 1.234),
        ("memory", "c", 0.0),
        ("prefilling", "b", 0.5),
        ("gone", None, 0.0),
    ]
    assert [each["label"] for each in slots(shown, 4.0)] == [
        "opencode's chat writes: 1 token",
        "opencode's chat waits for memory: 1.0 GiB short, next of those who lack it",
        "curl's completion reads the prompt: 0 of 1,200 tokens",
        "out of service: its state could not be put right",
    ]
    event = shown.event()
    assert event["parallel"]["turn"] == {"slots": [0, 2], "hand_overs": 7}
    assert event["parallel"]["rounds"] == {"2": 40, "3": 1}
    assert event["engine"]["label"] == (
        "slot 0: opencode's chat writes: 1 token; slot 2: curl's completion reads the prompt: 0 of 1,200 tokens"
    )


@pytest.mark.spec("OBS-068")
def test_the_engines_sentence_names_four_and_counts_the_others() -> None:
    shown = Shown(slots=6)
    for slot in range(6):
        shown.begin(f"r{slot}", client_kind="curl")
        shown.becomes(f"r{slot}", **{**WRITING, "slot": slot})
    label = shown.event(3.0)["engine"]["label"]
    assert label.startswith("slot 0: curl's chat writes: 1 token; slot 1: ")
    assert label.endswith("slot 3: curl's chat writes: 1 token; 2 more run")


@pytest.mark.spec("OBS-085", "SCH-104")
def test_own_work_has_slot_0_and_a_guest_is_listed_with_its_holder() -> None:
    shown = Shown(slots=2)
    shown.view.sharing.own_seen("reader", 1.0)
    assert [(each["state"], each["label"], each["since_ms"]) for each in slots(shown, 3.0)] == [
        ("own", "the service reads the last conversation on", 2000),
        ("idle", "free", None),
    ]
    shown.view.sharing.own_seen(None, 3.0)
    shown.begin("holder", **{**WRITING, "granted_at": 3.0, "first_at": 3.0})
    shown.begin("guest", client_kind="curl", **{**PREFILLING, "granted_at": 4.0}, lane="decode")
    first, second = slots(shown, 4.0)
    assert first["request_id"] == "holder"
    guest = {"request_id": "guest", "label": "curl's chat reads the prompt: 0 of 1,200 tokens"}
    assert (first["guests"], second["guests"]) == ([guest], [])


@pytest.mark.spec("OBS-085", "SCH-046")
def test_lane_and_admission() -> None:
    shown = Shown(slots=2)
    parallel = shown.event(1.0)["parallel"]
    assert (parallel["lane"], parallel["admission"]) == ({"waiting": 0, "served": {}}, None)
    shown.begin("short", client_kind="curl", **QUEUED, slot=1, missing=GIB // 2, memory_place=2)
    for lane in ("decode", "decode", "self"):
        shown.view.ended(outcome(request_id="r", lane=lane), shown.at)
    shown.view.sharing.memory_seen(3 * GIB, 15 * GIB, None, 4)
    shown.whys("job")
    parallel = shown.event(2.0)["parallel"]
    assert parallel["lane"] == {"waiting": 1, "served": {"decode": 2, "self": 1}}
    assert parallel["admission"] == {
        "reserved_bytes": 3 * GIB,
        "floor_bytes": 15 * GIB,
        "available_bytes": None,
        "waits": 4,
        "waiting": ["curl's chat waits for memory: 0.5 GiB short, 2nd of those who lack it"],
    }


@pytest.mark.spec("OBS-085", "SCH-070")
def test_meeting_times_are_shown_where_they_are_taken() -> None:
    shown = Shown(slots=2)
    assert shown.event(1.0)["parallel"]["meeting"] == {}
    shown.view.sharing.rounds_seen({}, {}, {2: {"rounds": 5, "round_ms": 21.5}})
    assert shown.event(2.0)["parallel"]["meeting"] == {"2": {"rounds": 5, "round_ms": 21.5}}


@pytest.mark.spec("SCH-104", "SCH-051")
def test_who_waits_beside_a_free_slot_is_told_for_which() -> None:
    shown = Shown(slots=2)
    shown.begin("a", **{**WRITING, "first_at": 1.0})
    shown.begin("next turn", **QUEUED)
    shown.line("next turn")
    label = "waits for slot 0: next in line behind opencode's chat, which has been writing for 2 s"
    assert shown.activity(3.0, "next turn")["label"] == label
    shown.begin("b", **{**WRITING, "first_at": 1.0, "slot": 1})
    assert shown.activity(3.0, "next turn")["label"].startswith("waits: next in line behind opencode's chat and 1 more")
