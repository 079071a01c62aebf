"""The document around the rows: engine, counts, rates, samples, history, and the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

import tandem
from tests.live.samples import EPOCH, PREFILLING, QUEUED, WRITING, Shown, valid

EXAMPLES = Path(tandem.__file__).parent / "contract/examples"


@pytest.mark.spec("API-241")
def test_the_examples_keep_the_contract() -> None:
    example = (EXAMPLES / "live.json").read_text("utf-8")
    assert {row["phase"] for row in valid(example)["requests"]} == {"writing", "queued", "done"}
    assert {each["tone"] for each in valid(example)["recent"]} == {"ok", "warn", "bad"}
    parallel = valid((EXAMPLES / "live-parallel.json").read_text("utf-8"))["parallel"]
    assert [slot["state"] for slot in parallel["slots"]] == ["writing", "prefilling", "memory"]


@pytest.mark.spec("OBS-063")
def test_the_engine_is_idle_busy_or_draining_and_says_what_it_does() -> None:
    shown = Shown()
    engine = shown.event(5.0)["engine"]
    assert (engine["state"], engine["label"], engine["since_ms"]) == ("idle", "idle: nothing runs", 5000)
    shown.begin()
    engine = shown.event()["engine"]
    assert engine["label"] == "opencode's chat arrives: its body, images and prompt are being read"
    shown.becomes(**WRITING)
    engine = shown.event(7.0)["engine"]
    assert (engine["state"], engine["since_ms"]) == ("busy", 2000)
    assert engine["label"] == "opencode's chat writes: 1 token"
    assert engine["kv"] == {"length": 1201, "limit": 4096}
    shown.line(draining=True)
    engine = shown.event(8.0)["engine"]
    assert (engine["state"], engine["since_ms"]) == ("draining", 1000)
    assert engine["label"] == "drains, takes no more requests; opencode's chat writes: 1 token"
    shown.end()
    assert shown.event()["engine"]["label"] == "drains: nothing runs any more"
    assert shown.event()["engine"]["model"] == "TandemLLM"


@pytest.mark.spec("OBS-063")
def test_counts() -> None:
    shown = Shown()
    shown.begin("a", **WRITING)
    shown.begin("b", **QUEUED)
    shown.begin("c", **PREFILLING)
    for reason in ("stop", "length", "error", "refused", "abandoned", "timeout"):
        shown.end(request_id=reason, finish_reason=reason)
    counts = {
        "in_flight": 3,
        "queued": 1,
        "lane": 0,
        "prefilling": 1,
        "decoding": 1,
        "completed_1m": 2,
        "served": 2,
        "errors": 1,
        "refused": 1,
    }
    assert shown.event(59.0)["counts"] == counts
    assert shown.event(61.0)["counts"] == {**counts, "completed_1m": 0}


@pytest.mark.spec("OBS-063")
def test_rates_come_from_what_was_written_and_read_between_two_looks() -> None:
    shown = Shown()
    shown.begin(**PREFILLING)
    shown.becomes(read=600, resumed=100)
    now = shown.event(0.5)["now"]
    assert (now["prefill_tps"], now["prefilling"], now["last_prefill_ms_ago"]) == (1000.0, True, 0)
    shown.becomes(**WRITING, resumed=100)
    shown.event(1.0)
    shown.becomes(completion=21, rounds=10)
    now = shown.event(2.0)["now"]
    assert (now["decode_tps"], now["prefill_tps"], now["prefilling"]) == (10.5, 550.0, False)
    assert (now["tokens_per_block"], now["last_prefill_ms_ago"]) == (2.1, 1000)
    shown.event(3.0)
    assert shown.event(4.0)["now"]["decode_tps"] == 0.0


def test_tokens_of_a_request_that_nobody_saw_running_count_too() -> None:
    shown = Shown()
    shown.begin()
    shown.becomes(**WRITING, is_closed=True)
    shown.becomes(completion=30, phase="finishing")
    shown.now = 0.5
    shown.end()
    assert shown.view.needs_sample
    shown.sample(1.0)
    assert not shown.view.needs_sample
    sample = shown.event()["sample"]
    assert (sample["tokens"], sample["decode_tps"], sample["prefill_tps"]) == (30, 30.0, 1200.0)


@pytest.mark.spec("OBS-059", "OBS-063")
def test_samples_are_seconds() -> None:
    shown = Shown()
    shown.begin("a", **WRITING)
    shown.begin("b", **QUEUED)
    for second in range(1, 4):
        shown.becomes("a", completion=1 + 20 * second)
        shown.sample(float(second))
    event = shown.event(with_history=True)
    assert [sample["tokens"] for sample in event["history"]] == [21, 20, 20]
    assert event["sample"] == event["history"][-1]
    assert event["sample"] == {
        "t": EPOCH.timestamp() + 3,
        "decode_tps": 20.0,
        "prefill_tps": 0.0,
        "running": 1,
        "waiting": 1,
        "tokens": 20,
    }
    assert "history" not in shown.event()


@pytest.mark.spec("OBS-059")
def test_where_nothing_ran_history_has_zeros_and_where_something_did_what_was_measured() -> None:
    shown = Shown()
    shown.now = 10.4
    shown.begin(**WRITING)
    shown.becomes(completion=5)
    shown.sample(11.0)
    shown.now = 11.5
    shown.end()
    shown.sample(12.0)
    history = shown.event(20.2, with_history=True)["history"]
    assert [sample["tokens"] for sample in history] == [0] * 10 + [5, 0] + [0] * 8
    assert [sample["running"] for sample in history] == [0] * 10 + [1, 0] + [0] * 8
    assert [sample["t"] - EPOCH.timestamp() for sample in history] == [float(second) for second in range(1, 21)]


@pytest.mark.spec("OBS-059")
def test_history_is_five_minutes() -> None:
    shown = Shown()
    history = shown.event(10_000.0, with_history=True)["history"]
    assert len(history) == 300
    assert history[-1]["t"] - history[0]["t"] == 299


def test_requests_beyond_what_can_be_looked_at_are_counted() -> None:
    shown = Shown()
    for index in range(300):
        shown.begin(f"r{index}", **QUEUED)
    shown.line(*(f"r{index}" for index in range(64)))
    event = shown.event(1.0)
    assert len(event["requests"]) == 256
    assert event["counts"]["in_flight"] == 300
