"""A request's row in every phase: state, label, figures, timeline."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tandem.live.seen import ConductorSeen, RequestSeen
from tests.live.samples import PREFILLING, QUEUED, WRITING, Shown


@pytest.mark.spec("OBS-065", "OBS-068")
@pytest.mark.parametrize(
    ("facts", "state", "label"),
    [
        ({}, "arriving", "arrives: its body, images and prompt are being read"),
        (QUEUED, "queued", "waits: its place is not known yet"),
        (PREFILLING, "prefilling", "reads the prompt: 0 of 1,200 tokens"),
        (WRITING, "writing", "writes: 1 token"),
        ({**WRITING, "in_reasoning": True, "reasoning": 1}, "thinking", "thinks: 1 token"),
        ({**WRITING, "in_call": True}, "tool_call", "begins a tool call"),
        (
            {**WRITING, "in_call": True, "tool": "get_weather", "tool_bytes": 84, "tool_open": True},
            "tool_call",
            "calls get_weather (84 bytes of arguments)",
        ),
        ({**WRITING, "in_call": True, "tool": "the_last_one", "tool_bytes": 9}, "tool_call", "begins a tool call"),
        ({**WRITING, "choices": 3, "choice": 1}, "writing", "writes: 1 token (choice 2 of 3)"),
        ({**WRITING, "phase": "finishing"}, "finishing", "sends its last pieces"),
        ({**WRITING, "client_gone_at": 2.5}, "writing", "writes: 1 token; its client has left"),
    ],
)
def test_each_phase_has_a_state_and_a_label(facts: dict[str, Any], state: str, label: str) -> None:
    shown = Shown()
    shown.begin()
    shown.becomes(**facts)
    activity = shown.activity(3.0)
    assert (activity["state"], activity["label"]) == (state, label)


@pytest.mark.spec("OBS-065", "OBS-068", "API-245")
def test_who_waits_is_told_its_place_and_behind_whom() -> None:
    shown = Shown()
    shown.begin("first")
    shown.becomes("first", **PREFILLING)
    shown.begin("second", client_kind="curl", endpoint="completions")
    shown.begin("third")
    shown.line("second", "third")
    for each in ("second", "third"):
        shown.becomes(each, **QUEUED)
    shown.event(3.0)
    shown.becomes("first", **WRITING)
    second, third = shown.activity(15.0, "second"), shown.activity(15.0, "third")
    assert second["label"] == "waits: next in line behind opencode's chat, which has been writing for 12 s"
    assert third["label"] == "waits: 2nd in line behind opencode's chat, which has been writing for 12 s"
    queue = third["queue"]
    assert (queue["place"], queue["of"], queue["waited_ms"]) == (2, 2, 15_000)
    holder = {"request_id": "first", "client_kind": "opencode", "endpoint": "chat", "state": "writing"}
    assert {name: queue["holder"][name] for name in holder} == holder
    assert queue["holder"]["since_ms"] == 12_000
    assert queue["holder"]["label"] == "writes: 1 token"
    assert [row["request_id"] for row in shown.event()["requests"]] == ["first", "second", "third"]


def test_rows_stand_in_the_order_of_their_grants() -> None:
    shown = Shown()
    for request_id in ("late", "next", "running"):
        shown.begin(request_id, **QUEUED)
    shown.becomes("running", **PREFILLING)
    shown.line("next", "late")
    assert [row["request_id"] for row in shown.event(2.0)["requests"]] == ["running", "next", "late"]


@pytest.mark.spec("OBS-064", "OBS-065")
def test_a_prefill_tells_how_far_it_is_and_what_is_left() -> None:
    shown = Shown()
    shown.begin()
    shown.becomes(**PREFILLING)
    shown.event(1.0)
    shown.becomes(read=700, resumed=200, cache_source="prefix")
    row = shown.row(2.0)
    assert row["activity"]["label"] == "reads the prompt: 700 of 1,200 tokens, 200 from the cache, about 1 s left"
    prefill = {"done": 700, "total": 1200, "cached": 200, "percent": 58.3, "rate": 500.0, "eta_s": 1.0, "image": None}
    assert row["activity"]["prefill"] == prefill
    assert shown.activity(2.5)["prefill"]["eta_s"] == 0.5  # until the next chunk the rate stands and the time runs
    assert (row["cached_tokens"], row["forwarded_tokens"], row["cache_source"]) == (200, 500, "prefix")
    assert (row["queue_ms"], row["prompt_ms"], row["ttft_ms"]) == (1000, 1000, None)


@pytest.mark.spec("OBS-065", "ENG-098")
def test_a_prefill_names_the_image_that_comes_next() -> None:
    shown = Shown()
    shown.begin()
    shown.becomes(**PREFILLING, image=(1, 3))
    assert shown.activity(1.0)["label"] == "reads the prompt: 0 of 1,200 tokens, image 1 of 3"
    shown.becomes(read=700, image=(2, 3))
    assert shown.activity(2.0)["prefill"]["image"] == {"number": 2, "of": 3}
    shown.becomes(read=1100, image=None)
    assert shown.activity(3.0)["prefill"]["image"] is None
    assert "image" not in shown.activity(3.0)["label"]


@pytest.mark.spec("OBS-064")
def test_a_row_tells_what_is_known_of_the_request() -> None:
    shown = Shown()
    shown.begin()
    shown.becomes(**WRITING, model="m" * 100)
    shown.becomes(completion=41, reasoning=10, rounds=20, last_at=7.0)
    row = shown.row(7.5)
    expected = {
        "phase": "writing",
        "status": None,
        "finish_reason": None,
        "mode": "raw",
        "client_kind": "opencode",
        "client_id": "k:1f0e9d8c7b6a",
        "endpoint": "chat",
        "stream": True,
        "thinking": "on",
        "temperature": 0.7,
        "max_tokens": 256,
        "arrived_at": "2026-11-30T06:30:00.000+00:00",
        "elapsed_ms": 7500,
        "queue_ms": 1000,
        "prompt_ms": 2000,
        "ttft_ms": 3000,
        "decode_ms": 4000,
        "prompt_tokens": 1200,
        "cached_tokens": 0,
        "forwarded_tokens": 1200,
        "completion_tokens": 41,
        "reasoning_tokens": 10,
        "blocks": 20,
        "tokens_per_block": 2.05,
        "decode_tps": 10.0,
        "prefill_tps": 600.0,
        "cache_source": "none",
        "slot": 0,
        "line": None,
    }
    assert {name: row[name] for name in expected} == expected
    assert row["model"] == "m" * 79 + "…"
    assert row["activity"]["decode"] == {
        "thinking_tokens": 10,
        "content_tokens": 31,
        "rounds": 20,
        "tokens_per_round": 2.05,
        "rate": 8.889,
    }


def test_the_rate_is_of_the_last_two_seconds() -> None:
    shown = Shown()
    shown.begin()
    shown.becomes(**WRITING)
    for step in range(1, 21):  # 40 a second, then 4
        shown.becomes(completion=1 + (10 * step if step <= 8 else 80 + step - 8))
        shown.event(3.0 + step / 4)
    assert shown.activity()["decode"]["rate"] == 4.0
    assert shown.activity()["label"] == "writes: 93 tokens at 4.0/s"


@pytest.mark.spec("OBS-064")
def test_the_timeline_has_the_times_that_are_known_exactly() -> None:
    shown = Shown()
    shown.begin()
    shown.now = 0.1
    shown.line("r1")
    shown.becomes(**WRITING, in_reasoning=True, reasoning=1)
    shown.event(3.25)
    shown.becomes(in_reasoning=False, completion=5)
    shown.event(3.5)
    steps = [(step["state"], step["at_ms"]) for step in shown.row()["timeline"]]
    assert steps == [("arriving", 0), ("queued", 100), ("prefilling", 1000), ("thinking", 3000), ("writing", 3500)]


@pytest.mark.spec("OBS-064")
def test_a_timeline_keeps_the_last_sixteen() -> None:
    shown = Shown()
    shown.begin()
    shown.becomes(**WRITING)
    for step in range(20):
        shown.becomes(in_call=step % 2 == 0)
        shown.event(4.0 + step)
    states = [step["state"] for step in shown.row()["timeline"]]
    assert len(states) == 16
    assert states[-2:] == ["tool_call", "writing"]


@pytest.mark.spec("OBS-069")
def test_a_client_that_has_left_shows_for_how_long() -> None:
    shown = Shown()
    shown.begin()
    shown.becomes(**PREFILLING, client_gone_at=2.0)
    assert shown.activity(3.0)["client"] == {"connected": False, "gone_ms": 1000}


@pytest.mark.spec("OBS-060", "API-245")
def test_without_activity_rates_and_counts_stay() -> None:
    shown = Shown(shows_activity=False)
    shown.begin()
    shown.becomes(**WRITING, line="checked bash: it cannot be undone, written again")
    event = shown.event(4.0)
    [row] = event["requests"]
    assert row["activity"] is row["line"] is None
    assert row["timeline"] == []
    assert row["completion_tokens"] == 1
    assert event["counts"]["decoding"] == 1
    assert event["engine"]["label"] == "busy: 1 running, 0 waiting"


def test_a_request_that_cannot_be_looked_at_is_unknown_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown = Shown()
    broken = True

    def look() -> RequestSeen:
        if broken:
            raise ZeroDivisionError("SECRET")
        return shown.requests["r1"]

    shown.view.began("r1", look, shown.at)
    with caplog.at_level(logging.ERROR):
        shown.event(1.0)
        row = shown.row(2.0)
    assert (row["phase"], row["activity"]["state"]) == ("unknown", "unknown")
    assert [record.getMessage() for record in caplog.records] == [
        "[live] request r1 cannot be looked at: ZeroDivisionError"
    ]
    broken = False
    shown.begin("r1", **WRITING)
    assert shown.row(3.5)["phase"] == "writing"


CONDUCTOR = {"mode": "on", "acts": 0, "hidden_tokens": 0, "task": None, "decision": None, "action": None}


@pytest.mark.spec("OBS-067", "OBS-068")
@pytest.mark.parametrize(
    ("facts", "label"),
    [
        ({}, "monitor: nothing found"),
        (
            {"acts": 1, "hidden_tokens": 31, "task": "D1", "decision": "CLOSE_REASONING", "action": "CLOSE_REASONING"},
            "monitor: D1 closed the reasoning, 31 hidden tokens",
        ),
        (
            {"acts": 2, "hidden_tokens": 1, "task": "E1", "decision": "CONTINUE_HIDDEN", "action": "GIVE_UP"},
            "monitor: E1 ended the turn, 2 acts, 1 hidden token",
        ),
        (
            {"mode": "shadow", "task": "C3", "decision": "REGENERATE_CALL"},
            "monitor in shadow: C3 would have had a call written anew",
        ),
        ({"supervising": True}, "monitor: the model reads what its client does not see; nothing found"),
    ],
)
def test_a_monitored_request_tells_what_was_done_to_it(facts: dict[str, Any], label: str) -> None:
    shown = Shown()
    shown.begin()
    seen = ConductorSeen(**{**CONDUCTOR, "supervising": False, **facts})
    shown.becomes(**WRITING, conductor=seen)
    now = shown.activity(3.0)["conductor"]
    assert now == {**CONDUCTOR, "supervising": False, **facts, "label": label}
    shown.end(conductor_acts=3, conductor_hidden_tokens=9)
    done = shown.activity(4.0)["conductor"]
    assert (done["acts"], done["hidden_tokens"], done["supervising"], done["task"]) == (3, 9, False, now["task"])


@pytest.mark.spec("OBS-067")
def test_one_that_nobody_monitors_says_nothing_of_it() -> None:
    shown = Shown()
    shown.begin()
    shown.becomes(**WRITING)
    assert "conductor" not in shown.activity(3.0)
