"""Requests that have ended: their sentence, their final figures, how long they are shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.samples import WRITING, Shown

WRITTEN = {"completion_tokens": 53, "reasoning_tokens": 13, "decode_ms": 1040.0, "blocks": 26}


@pytest.mark.spec("OBS-068")
@pytest.mark.parametrize(
    ("facts", "sentence", "tone"),
    [
        (WRITTEN, "done: stop, 53 tokens in 2.0 s", "ok"),
        ({**WRITTEN, "finish_reason": "length"}, "done: length, it reached its limit of 53 tokens", "ok"),
        (
            {**WRITTEN, "finish_reason": "tool_calls", "tool_calls": 1},
            "done: tool_calls, called get_weather, 53 tokens in 2.0 s",
            "ok",
        ),
        (
            {**WRITTEN, "finish_reason": "tool_calls", "tool_calls": 2},
            "done: tool_calls, made 2 calls, the last of get_weather, 53 tokens in 2.0 s",
            "ok",
        ),
        (
            {**WRITTEN, "finish_reason": "timeout"},
            "stopped: the time for one request was over, after 53 tokens",
            "bad",
        ),
        ({**WRITTEN, "finish_reason": "abandoned", "status": 499}, "its client left after 53 tokens", "warn"),
        (
            {"finish_reason": "abandoned", "status": 499, "total_ms": 40.0},
            "its client left after 40 ms, before the first token",
            "warn",
        ),
        (
            {"finish_reason": "error", "status": 500, "error_type": "server_error", "completion_tokens": 1},
            "failed: an error inside the server, after 1 token",
            "bad",
        ),
        (
            {"finish_reason": "refused", "status": 503, "error_type": "queue_full"},
            "refused: the queue was full",
            "warn",
        ),
        (
            {"finish_reason": "refused", "status": 429, "error_type": "queue_timeout"},
            "refused: it waited in the queue as long as it may",
            "warn",
        ),
        (
            {"finish_reason": "refused", "status": 413, "error_type": "invalid_request_error"},
            "refused: the request was not valid (413, invalid_request_error)",
            "warn",
        ),
    ],
)
def test_each_end_has_a_sentence_and_a_tone(facts: dict[str, Any], sentence: str, tone: str) -> None:
    shown = Shown()
    shown.begin(**WRITING, tool="get_weather", tool_bytes=84)
    shown.now = 2.0
    shown.end(**facts)
    event = shown.event()
    [row], [recent] = event["requests"], event["recent"]
    assert (row["sentence"], row["tone"]) == (recent["sentence"], recent["tone"]) == (sentence, tone)
    assert row["activity"]["label"] == sentence
    assert row["phase"] == row["activity"]["state"] == row["timeline"][-1]["state"] == "done"


@pytest.mark.spec("OBS-071")
def test_final_figures_are_those_of_the_outcome() -> None:
    shown = Shown()
    shown.begin(**WRITING)
    shown.now = 2.0
    figures = {
        "prompt_tokens": 1200,
        "cached_tokens": 1000,
        "forwarded_tokens": 200,
        "completion_tokens": 53,
        "reasoning_tokens": 13,
        "queue_ms": 10.0004,
        "prompt_ms": 200.0,
        "ttft_ms": 210.0004,
        "decode_ms": 1040.0,
        "prefill_tps": 1000.0,
        "blocks": 26,
        "cache_source": "prefix",
    }
    shown.end(**figures)
    [row] = shown.event()["requests"]
    expected = {**figures, "queue_ms": 10.0, "ttft_ms": 210.0, "decode_tps": 50.0, "tokens_per_block": 2.038}
    assert {name: row[name] for name in expected} == expected
    assert (row["status"], row["finish_reason"], row["elapsed_ms"]) == (200, "stop", 2000)
    assert row["ended_at"] == "2026-11-30T06:30:02.000+00:00"
    assert row["temperature"] == 0.7  # what an outcome does not hold was seen before


@pytest.mark.spec("OBS-063")
def test_a_row_stays_half_a_minute_and_a_recent_end_a_quarter_of_an_hour() -> None:
    shown = Shown()
    shown.begin()
    shown.end()
    for now, rows, recent in ((30.0, 1, 1), (30.5, 0, 1), (900.0, 0, 1), (900.5, 0, 0)):
        event = shown.event(now)
        assert (len(event["requests"]), len(event["recent"])) == (rows, recent)


@pytest.mark.spec("OBS-063")
def test_recent_ends_are_twenty_and_the_newest_first() -> None:
    shown = Shown()
    for index in range(70):
        shown.end(request_id=f"r{index}", finish_reason="refused", status=503, error_type="queue_full")
    event = shown.event()
    assert [each["request_id"] for each in event["recent"]] == [f"r{index}" for index in range(69, 49, -1)]
    assert len(event["requests"]) == 50


def test_the_end_of_a_request_whose_begin_was_lost_is_shown() -> None:
    shown = Shown()
    shown.end()
    [row] = shown.event()["requests"]
    assert (row["phase"], row["timeline"]) == ("done", [])


def test_a_request_whose_end_was_lost_is_not_shown_for_ever() -> None:
    shown = Shown()
    shown.begin(**WRITING)
    shown.becomes(is_closed=True, phase="finishing")
    event = shown.event(4.0)
    assert event["requests"] == []
    assert event["engine"]["state"] == "idle"
