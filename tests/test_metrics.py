"""What is counted of requests, and the page of it (OBS-031 to OBS-041)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tandem.conductor.monitor.events import MonitorEvent
from tandem.metrics import CONTENT_TYPE, CacheReading, Metrics, Readings, TurnsReading, route_of, up_page
from tandem.metrics.labels import FINISH_REASONS, LANES, REFUSALS, ROUTES
from tests.store.samples import outcome

ANSWERED: dict[str, Any] = {
    "prompt_tokens": 30,
    "cached_tokens": 20,
    "completion_tokens": 41,
    "reasoning_tokens": 11,
    "engine_cached": 22,
    "forwarded_tokens": 10,
    "queue_ms": 250.0,
    "prompt_ms": 100.0,
    "ttft_ms": 350.0,
    "decode_ms": 800.0,
    "total_ms": 1150.0,
    "decode_tps": 50.0,
    "prefill_tps": 100.0,
    "blocks": 20,
    "draft_tokens": 60,
    "draft_accepted": 30,
    "verify_s": 0.3,
    "draft_s": 0.1,
    "images_left_out": 2,
}


def parse(page: bytes) -> dict[str, Metric]:
    """As a scraper reads it, by name."""
    return {family.name: family for family in text_string_to_metric_families(page.decode())}


def samples(metrics: Metrics, readings: Readings | None = None) -> dict[str, float]:
    """Every sample of the page but buckets; a labelled one by its name and the values of its labels."""
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in parse(metrics.page(readings or Readings())).values()
        for sample in family.samples
        if "le" not in sample.labels
    }


def counted(*outcomes: Mapping[str, Any]) -> dict[str, float]:
    metrics = Metrics()
    for each in outcomes:
        metrics.ended(outcome(**each))
    return samples(metrics)


@pytest.mark.spec("OBS-036", "API-058", "API-059")
def test_an_answered_request() -> None:
    found = counted(ANSWERED)
    expected = {
        "tandem_requests_total stop": 1,
        "tandem_request_success_total": 1,
        "tandem_images_left_out_total": 2,
        "tandem_prompt_tokens_total": 30,
        "tandem_prompt_tokens_cached_total": 20,
        "tandem_generation_tokens_total": 41,
        "tandem_reasoning_tokens_total": 11,
        "tandem_prefill_tokens_reused_total": 22,
        "tandem_prefill_tokens_forwarded_total": 10,
        "tandem_request_prompt_tokens_sum": 30,
        "tandem_request_completion_tokens_sum": 41,
        "tandem_e2e_request_latency_seconds_sum": 1.15,
        "tandem_request_queue_seconds_sum": 0.25,
        "tandem_request_prefill_seconds_sum": 0.1,
        "tandem_time_to_first_token_seconds_sum": 0.35,
        "tandem_time_per_output_token_seconds_sum": 0.02,
        "tandem_request_decode_tokens_per_second_sum": 50,
        "tandem_request_prefill_tokens_per_second_sum": 100,
        "tandem_spec_decode_num_drafts_total": 20,
        "tandem_spec_decode_num_draft_tokens_total": 60,
        "tandem_spec_decode_num_accepted_tokens_total": 30,
        "tandem_spec_accept_per_block_sum": 30,
        "tandem_spec_accept_per_block_count": 20,
        "tandem_verify_seconds_sum": 0.3,
        "tandem_verify_seconds_count": 20,
        "tandem_draft_seconds_sum": 0.1,
        "tandem_draft_seconds_count": 20,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert {name for name, value in found.items() if value} - expected.keys() == {
        name.replace("_sum", "_count")
        for name in expected
        if name.endswith(("_seconds_sum", "_tokens_sum", "_second_sum"))
    } - expected.keys()


@pytest.mark.spec("OBS-038")
@pytest.mark.parametrize("reason", FINISH_REASONS)
def test_each_request_has_one_finish_reason(reason: str) -> None:
    found = counted(ANSWERED | {"finish_reason": reason})
    ended = {name: value for name, value in found.items() if name.startswith("tandem_requests_total")}
    assert ended == {f"tandem_requests_total {each}": float(each == reason) for each in FINISH_REASONS}
    assert found["tandem_request_success_total"] == (reason in ("stop", "length", "tool_calls"))
    assert found["tandem_errors_total server_error"] == (reason == "error")


@pytest.mark.spec("OBS-038", "API-058")
def test_a_refusal_has_the_errors_code_for_its_reason() -> None:
    codes = (*REFUSALS, "context_length_exceeded", "invalid_request_error", None)
    found = counted(*({"finish_reason": "refused", "error_type": code, "completion_tokens": None} for code in codes))
    refused = {name: value for name, value in found.items() if name.startswith("tandem_requests_refused_total")}
    assert refused == {f"tandem_requests_refused_total {code}": 1.0 for code in REFUSALS}
    assert found["tandem_requests_total refused"] == len(codes)
    assert found["tandem_errors_total server_error"] == found["tandem_errors_total other"] == 0


def test_who_waited_too_long_counts_with_the_wait() -> None:
    refused = {"finish_reason": "refused", "completion_tokens": None, "prompt_tokens": None, "total_ms": 240_000.0}
    assert counted(refused | {"error_type": "queue_timeout"})["tandem_request_queue_seconds_sum"] == 240
    found = counted(refused | {"error_type": "queue_full"})
    assert found["tandem_request_queue_seconds_count"] == found["tandem_e2e_request_latency_seconds_count"] == 0
    assert found["tandem_request_prompt_tokens_count"] == 0


@pytest.mark.spec("SCH-075")
def test_who_waited_for_memory_in_vain_counts_with_the_wait() -> None:
    refused = {"finish_reason": "refused", "completion_tokens": None, "error_type": "memory", "total_ms": 240_000.0}
    assert counted(refused | {"wait_mem_ms": 200_000.0})["tandem_request_queue_seconds_sum"] == 240
    assert counted(refused)["tandem_request_queue_seconds_count"] == 0  # the gate refuses at once


@pytest.mark.spec("SCH-106", "SCH-046")
def test_lane_guests_count_by_kind_and_tell_no_speed() -> None:
    found = counted(*(ANSWERED | {"lane": lane} for lane in ("decode", "decode", "self")))
    lanes = {name: value for name, value in found.items() if name.startswith("tandem_lane_jobs_total")}
    assert lanes == {f"tandem_lane_jobs_total {lane}": count for lane, count in zip(LANES, (2, 0, 1), strict=True)}
    assert found["tandem_verify_seconds_count"] == found["tandem_spec_accept_per_block_count"] == 0
    assert found["tandem_spec_decode_num_drafts_total"] == 60


@pytest.mark.spec("OBS-013")
@pytest.mark.parametrize(
    "why",
    [
        {"conductor_acted": True},
        {"lane": "decode"},
        {"cache_source": "response"},
        {"finish_reason": "error"},
        {"finish_reason": "refused"},
    ],
)
def test_rows_that_tell_nothing_of_speed_stay_out_of_the_rates_and_count_in_the_sums(why: dict[str, Any]) -> None:
    found = counted(ANSWERED | why)
    for name in ("decode_tokens_per_second", "prefill_tokens_per_second"):
        assert found[f"tandem_request_{name}_count"] == 0
    assert found["tandem_time_per_output_token_seconds_count"] == 0
    assert found["tandem_generation_tokens_total"] == 41


def test_who_left_before_the_first_token_has_no_time_to_it() -> None:
    found = counted(ANSWERED | {"finish_reason": "abandoned", "completion_tokens": 0, "blocks": 0, "decode_tps": None})
    assert found["tandem_time_to_first_token_seconds_count"] == found["tandem_request_prefill_seconds_count"] == 0
    assert found["tandem_request_queue_seconds_count"] == 1
    assert found["tandem_spec_accept_per_block_count"] == 0


def test_an_engine_that_does_not_draft_or_time_itself_has_no_such_times() -> None:
    found = counted(ANSWERED | {"draft_tokens": 0, "draft_accepted": 0, "verify_s": None, "draft_s": 0.0})
    assert found["tandem_verify_seconds_count"] == found["tandem_draft_seconds_count"] == 0
    assert found["tandem_spec_decode_num_drafts_total"] == found["tandem_spec_accept_per_block_count"] == 20
    assert found["tandem_spec_accept_per_block_sum"] == 0


@pytest.mark.spec("API-060", "OBS-035")
def test_routes() -> None:
    paths = {
        "chat": ["/v1/chat/completions"],
        "completions": ["/v1/completions"],
        "models": ["/v1/models", "/v1/models/TandemLLM", "/v1/models/org/name"],
        "health": ["/health", "/readyz"],
        "metrics": ["/metrics", "/metrics/up"],
        "cache": ["/v1/cache/stats", "/v1/cache/clear"],
        "dashboard": ["/v1/dashboard/live", "/v1/dashboard/session", "/v1/dashboard/metrics"],
        "conductor": ["/v1/conductor/events", "/v1/conductor/sessions/abc/export"],
        "library": ["/v1/library", "/v1/library/search", "/s/token/v1/library/name"],
        "laya": ["/v1/laya", "/v1/laya/ask", "/s/token/v1/laya/drive/end"],
        "systemone": ["/v1/systemone", "/v1/predict"],
        "static": ["/", "/dashboard", "/dashboard/chat.js", "/docs", "/openapi.json"],
        "other": ["/v1/nothing", "/v1/memory/x", "/wp-login.php", "/v1/modelsx", "/v1/chat/completions/x", "/\n", "*"],
    }
    assert tuple(paths) == ROUTES
    assert {(path, route_of(path)) for each in paths.values() for path in each} == {
        (path, route) for route, each in paths.items() for path in each
    }


@pytest.mark.spec("OBS-035", "API-060")
def test_no_word_of_a_client_becomes_a_label() -> None:
    mark = "pineapple"
    metrics = Metrics()
    words = ("request_id", "model", "client_id", "client_kind", "profile", "stop_detail", "error_type", "finish_reason")
    for reason in ("refused", "error", "stop"):
        fields: dict[str, Any] = dict.fromkeys(words, mark)
        metrics.ended(outcome(**fields | {"finish_reason": reason}))
    metrics.ended(outcome(finish_reason=mark))
    for path in (f"/{mark}", f"/v1/models/{mark}", f"/s/{mark}/v1/laya", f"/dashboard/{mark}"):
        metrics.answered(path, 404)
    page = metrics.page(Readings())
    assert mark.encode() not in page
    assert b'tandem_http_requests_total{code="404",route="other"} 1.0' in page


@pytest.mark.spec("OBS-031", "API-057")
def test_the_page_is_the_text_format() -> None:
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    metrics = Metrics()
    metrics.ended(outcome(**ANSWERED))
    metrics.answered("/health", 200)
    families = parse(metrics.page(everything()))
    assert all(name.startswith("tandem_") for name in families)
    assert all(family.documentation and family.type != "unknown" for family in families.values())
    assert not [sample.name for family in families.values() for sample in family.samples if "_created" in sample.name]
    assert [sample.value for sample in parse(up_page(True))["tandem_up"].samples] == [1]
    assert up_page(False).endswith(b"tandem_up 0.0\n")


@pytest.mark.spec("OBS-034", "API-057")
def test_units_are_seconds_and_bytes() -> None:
    names = parse(Metrics().page(everything()))
    assert not [name for name in names if name.endswith(("_ms", "_s", "_kb", "_mb", "_minutes"))]
    assert {"tandem_process_resident_memory_bytes", "tandem_cache_bytes", "tandem_engine_uptime_seconds"} <= set(names)


@pytest.mark.spec("OBS-039")
def test_buckets() -> None:
    bounds: dict[str, list[float]] = {}
    for family in parse(Metrics().page(Readings())).values():
        for sample in family.samples:
            if "le" in sample.labels:
                bounds.setdefault(family.name, []).append(float(sample.labels["le"]))
    assert all(each == sorted(set(each)) and each[-1] == float("inf") for each in bounds.values())
    queue, first = bounds["tandem_request_queue_seconds"], bounds["tandem_time_to_first_token_seconds"]
    assert 240 in queue
    assert queue[-2] > 240
    assert first[0] < 0.01
    assert first[-2] > 60
    rates = bounds["tandem_request_decode_tokens_per_second"]
    assert (rates[0], rates[-2]) == (5, 500)


def test_weighted_buckets_are_cumulative() -> None:
    metrics = Metrics()
    for accepted in (0, 30, 2000):
        metrics.ended(outcome(**ANSWERED | {"draft_accepted": accepted}))
    buckets = {
        sample.labels["le"]: sample.value
        for sample in parse(metrics.page(Readings()))["tandem_spec_accept_per_block"].samples
        if "le" in sample.labels
    }
    assert [buckets[le] for le in ("0.0", "1.0", "1.5", "16.0", "+Inf")] == [20, 20, 40, 40, 60]


def everything() -> Readings:
    """A scrape that could read all there is."""
    return Readings(
        requests_running=1,
        requests_waiting=2,
        resident_memory_bytes=3,
        uptime_s=4.5,
        started_at=5.0,
        ledger_rows=6,
        ledger_dropped=7,
        live_subscribers=8,
        log_subscribers=9,
        lane_waiting=10,
        sheds=11,
        turns=TurnsReading(hand_overs=12, rounds={2: 13, 3: 14}, seconds={0: 1.5, 1: 0.5}),
        admission_waits=15,
        own_work_s={"summary": 2.5},
        caches=[CacheReading(name="resident", entries=1, bytes=2, hits={"prefix": 3}, misses=4)],
        engine={"version": "1", "base_model": 'a "model"\\'},
        build={"version": "1", "git_sha": "0"},
    )


@pytest.mark.spec("OBS-033", "OBS-036", "API-057", "API-059")
def test_what_could_not_be_read_is_left_out() -> None:
    metrics = Metrics()
    without = parse(metrics.page(Readings()))
    full = parse(metrics.page(everything()))
    read = full.keys() - without.keys()
    assert read == {
        "tandem_requests_running",
        "tandem_requests_waiting",
        "tandem_process_resident_memory_bytes",
        "tandem_engine_uptime_seconds",
        "tandem_engine_start_time_seconds",
        "tandem_usage_ledger_rows",
        "tandem_usage_ledger_dropped",
        "tandem_live_subscribers",
        "tandem_log_subscribers",
        "tandem_lane_jobs_waiting",
        "tandem_memory_sheds",
        "tandem_admission_waits",
        "tandem_turn_hand_overs",
        "tandem_joint_rounds",
        "tandem_slot_gpu_seconds",
        "tandem_own_work_seconds",
        "tandem_cache_hits",
        "tandem_cache_misses",
        "tandem_cache_evictions",
        "tandem_cache_entries",
        "tandem_cache_bytes",
        "tandem_engine_info",
        "tandem_build_info",
    }
    found = samples(metrics, everything())
    assert found["tandem_cache_hits_total resident prefix"] == 3
    assert found["tandem_usage_ledger_rows_total"] == 6
    assert (found["tandem_joint_rounds_total 2"], found["tandem_slot_gpu_seconds_total 0"]) == (13, 1.5)
    assert (found["tandem_turn_hand_overs_total"], found["tandem_own_work_seconds_total summary"]) == (12, 2.5)
    assert full["tandem_engine_info"].samples[0].labels["base_model"] == 'a "model"\\'
    for each in fields(Readings):
        values = {other.name: getattr(everything(), other.name) for other in fields(Readings) if other is not each}
        gone = full.keys() - parse(metrics.page(Readings(**values))).keys()
        assert len(gone) == {"caches": 5, "turns": 3}.get(each.name, 1), each.name


def test_two_services_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.ended(outcome(**ANSWERED))
    assert samples(one)["tandem_request_success_total"] == 1
    assert samples(other)["tandem_request_success_total"] == 0


@pytest.mark.spec("OBS-037", "OBS-035", "OBS-023")
def test_what_the_monitor_decides() -> None:
    metrics = Metrics()
    assert "tandem_conductor" not in metrics.page(Readings()).decode()
    close = MonitorEvent(
        task="D1",
        rule="reasoning_loop",
        tier=0,
        sp="SP1",
        mode="act",
        decision="CLOSE_REASONING",
        acted="CLOSE_REASONING",
        reason="loop(period)",
        hidden_tokens=12,
        reasoning_cut=577,
    )
    asked = replace(close, task="E2", tier=1, decision="PASS", acted=None, hidden_tokens=0, detail={"questions": 2})
    ended = replace(close, task="D3", decision="GIVE_UP", acted="GIVE_UP", hidden_tokens=0, reasoning_cut=None)
    outcome = replace(close, decision="OUTCOME", acted=None, hidden_tokens=0, detail={"checks": {"shadow": {"D1b": 4}}})
    for event in (close, asked, ended, outcome):
        metrics.monitored(event)
    metrics.journal_lost(3)
    lines = metrics.page(Readings()).decode().splitlines()
    assert {line.removeprefix("tandem_conductor_") for line in lines if line.startswith("tandem_conductor_")} == {
        'decisions_total{decision="CLOSE_REASONING",mode="act",task="D1"} 1.0',
        'decisions_total{decision="PASS",mode="act",task="E2"} 1.0',
        'decisions_total{decision="PASS",mode="shadow",task="D1b"} 4.0',
        'decisions_total{decision="GIVE_UP",mode="act",task="D3"} 1.0',
        'actions_total{action="CLOSE_REASONING",task="D1"} 1.0',
        'actions_total{action="GIVE_UP",task="D3"} 1.0',
        "hidden_tokens_total 12.0",
        'gave_up_total{task="D3"} 1.0',
        'questions_total{task="E2"} 2.0',
        'reasoning_tokens_cut_total{task="D1"} 577.0',
        "journal_dropped_total 3.0",
    }
