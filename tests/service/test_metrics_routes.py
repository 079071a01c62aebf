"""GET /metrics, /metrics/up and /v1/dashboard/metrics over a service that has seen every kind of end."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio
import trio.testing
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tandem.draining import drain
from tandem.engine.caches.caching import CacheStats
from tandem.engine.fake import FakeEngine
from tandem.metrics import CONTENT_TYPE
from tandem.metrics.labels import FINISH_REASONS, ROUTES
from tandem.secrets import Secrets
from tests.http.openai.samples import tool
from tests.service.harness import Call, Harness, chat, fake, open_harness

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
CALL = "<tool_call>\n<function=ls>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>"
ENDLESS = {"say": "la ", "loop": True, "token_ms": 100}
REMOTE = "192.0.2.7"
PASSWORD = "a password of thirty-two characters"
MARK = "pineapple"


class Resident(FakeEngine):
    """A fake that says it keeps the newest sequence's rows."""

    def state(self) -> Mapping[str, int]:
        held = {"resident_rows": 5, "resident_anchors": 2, "resident_hits": 3, "resident_misses": 4}
        return {**super().state(), **held, "resident_bytes": 50, "kv_bytes": 1000}

    def caches(self) -> Mapping[str, CacheStats]:
        return {
            "resident": CacheStats(hits=3, misses=4, entries=1, bytes=50),
            "disk": CacheStats(collisions=2),
        }


def parse(call: Call) -> dict[str, Metric]:
    """The page as a scraper reads it."""
    assert call.status == 200
    assert call.headers["content-type"] == CONTENT_TYPE
    return {family.name: family for family in text_string_to_metric_families(call.body.decode())}


async def scrape(harness: Harness, path: str = "/metrics") -> dict[str, float]:
    await trio.testing.wait_all_tasks_blocked()
    return samples_of(await harness.client.send(path))


def samples_of(call: Call) -> dict[str, float]:
    """Every sample of the page by its name and the values of its labels."""
    return {
        " ".join((sample.name, *(sample.labels[name] for name in sorted(sample.labels)))): sample.value
        for family in parse(call).values()
        for sample in family.samples
    }


async def live_through(harness: Harness) -> None:
    """Requests that end in every way there is; the service waits for at most one request, and that for 50 s."""
    send, start = harness.client.send, harness.client.start
    await send(CHAT, chat({"say": "a b c"}, user=MARK, metadata={MARK: MARK}), headers={"x-request-id": MARK})
    await send(CHAT, chat({"say": "a b c"}, n=2))
    await send(TEXT, {"prompt": fake(say="a b c"), "model": MARK})
    await send(CHAT, chat({"say": "a b c d", "eos": False}, max_tokens=2))
    await send(CHAT, chat({"say": CALL}, tools=[tool()]))
    await send(CHAT, chat({"say": "a b", "fail_at": 1}))
    await send(CHAT, chat("hi", temperature=5))
    await send(CHAT, b"no JSON")
    running = start(CHAT, chat(ENDLESS, stream=True))
    await running.wait_for_piece()
    waiting = start(CHAT, chat("hi"))
    await trio.testing.wait_all_tasks_blocked()
    assert (await send(CHAT, chat("hi"))).status == 503
    await waiting.finished.wait()
    assert waiting.status == 429
    await running.finished.wait()
    leaving = start(CHAT, chat(ENDLESS, stream=True))
    await leaving.wait_for_piece()
    leaving.leave()
    await leaving.finished.wait()
    for path in (f"/{MARK}", f"/v1/models/{MARK}", f"/dashboard/{MARK}", "/health", "/v1/models"):
        await send(path)
    await drain(harness.service.context)
    assert (await send(CHAT, chat("hi"))).status == 503


@pytest.mark.spec("OBS-031", "OBS-035", "OBS-036", "OBS-038", "API-057", "API-058", "API-060")
async def test_after_every_kind_of_end(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(max_queue=1, queue_timeout=50, request_timeout=60) as harness:
        await live_through(harness)
        found = await scrape(harness)
        ends = {reason: found[f"tandem_requests_total {reason}"] for reason in FINISH_REASONS}
        assert ends == {
            "stop": 3,
            "length": 1,
            "tool_calls": 1,
            "timeout": 1,
            "abandoned": 1,
            "refused": 5,
            "error": 1,
        }
        assert sum(ends.values()) == len(harness.outcomes)
        assert found["tandem_request_success_total"] == 5
        assert found["tandem_errors_total server_error"] == 1
        refused = [
            found[f"tandem_requests_refused_total {code}"] for code in ("queue_full", "queue_timeout", "draining")
        ]
        assert refused == [1, 1, 1]
        assert found["tandem_requests_refused_total memory"] == 0
        assert found["tandem_generation_tokens_total"] == sum(each.completion_tokens or 0 for each in harness.outcomes)
        assert found["tandem_prompt_tokens_total"] == sum(each.prompt_tokens or 0 for each in harness.outcomes)
        assert found["tandem_prefill_tokens_forwarded_total"] == found["tandem_prompt_tokens_total"]
        assert found["tandem_request_queue_seconds_sum"] == pytest.approx(50)
        answered = {name.removeprefix("tandem_http_requests_total "): value for name, value in found.items()}
        expected = {"200 chat": 6, "500 chat": 1, "400 chat": 2, "429 chat": 1, "503 chat": 2, "200 completions": 1}
        assert {name: answered[name] for name in expected} == expected
        assert answered["200 models"] == answered["404 models"] == answered["404 other"] == answered["200 health"] == 1
        page = parse(await harness.client.send("/metrics"))
        labels = {
            (name, value) for family in page.values() for each in family.samples for name, value in each.labels.items()
        }
        assert MARK not in repr(labels)
        assert {value for name, value in labels if name == "route"} <= set(ROUTES)
        assert {name for name, _ in labels} == {
            *(
                "architecture",
                "base_model",
                "code",
                "code_sha256",
                "drafter",
                "finish_reason",
                "flags_sha256",
                "git_sha",
                "kind",
            ),
            *("le", "reason", "route", "type", "version", "weights"),
        }
        assert not [value for _, value in labels if value.startswith(("/", "req-", "chatcmpl-", "k:", "anon"))]


@pytest.mark.spec("ENG-105")
async def test_names_that_collide_are_counted_where_there_are_any(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(engine=Resident()) as harness:
        found = await scrape(harness)
        caches = (await harness.client.send("/health", method="GET")).json["cache"]["caches"]
    assert {name: count for name, count in found.items() if "collisions" in name} == {
        "tandem_cache_collisions_total disk": 2
    }
    assert [cache.get("collisions") for cache in caches] == [None, 2]


@pytest.mark.spec("OBS-033", "OBS-036", "SCH-103")
async def test_gauges_are_those_of_the_moment(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(engine=Resident()) as harness:
        running = harness.client.start(CHAT, chat(ENDLESS, stream=True, max_tokens=100))
        await running.wait_for_piece()
        harness.client.start(CHAT, chat("hi"))
        before = trio.current_time()
        found = await scrape(harness)
        assert trio.current_time() == before  # waits for no generation
        assert (found["tandem_requests_running"], found["tandem_requests_waiting"]) == (1, 1)
        assert found["tandem_engine_uptime_seconds"] == trio.current_time() - harness.service.context.started_at
        assert found["tandem_engine_start_time_seconds"] == harness.service.context.created.timestamp()
        assert found["tandem_process_resident_memory_bytes"] > 1e7
        assert found["tandem_live_subscribers"] == found["tandem_log_subscribers"] == 0
        assert found["tandem_cache_hits_total resident prefix"] == 3
        assert found["tandem_cache_misses_total resident"] == 4
        assert (found["tandem_cache_bytes resident"], found["tandem_cache_entries resident"]) == (50, 1)
        assert not [name for name in found if "gpu" in name]
        assert "tandem_usage_ledger_rows_total" not in found  # there is no ledger
        assert found["tandem_usage_ledger_dropped_total"] == 0


async def test_what_a_watcher_reads_is_counted(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        readers = harness.service.context.readers
        assert all(readers.take(kind, 4) for kind in ("live", "live", "log"))
        found = await scrape(harness)
        assert (found["tandem_live_subscribers"], found["tandem_log_subscribers"]) == (2, 1)
        health = (await harness.client.send("/health")).json
        assert health["live"] == {"readers": 2, "log_readers": 1}


class Broken(FakeEngine):
    """A fake whose counters cannot be read."""

    def state(self) -> Mapping[str, int]:
        raise RuntimeError("the counters are gone")


@pytest.mark.spec("OBS-033", "API-057")
async def test_a_source_that_fails_takes_no_other_with_it(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> dict[str, int]:
        raise OSError("no /proc")

    monkeypatch.setattr("tandem.http.routes.metrics.memory_of", fails)
    async with open_harness(engine=Broken()) as harness:
        await harness.client.send(CHAT, chat("hi"))
        full = await scrape(harness)
        assert not [name for name in full if "cache_" in name or "resident" in name]
        harness.service.context.broken.append("queue")  # /health is failed then, and the watchdog is not asked
        found = await scrape(harness)
        assert full.keys() - found.keys() == {
            "tandem_requests_running",
            "tandem_requests_waiting",
            "tandem_lane_jobs_waiting",
        }
        assert found["tandem_request_success_total"] == 1


@pytest.mark.spec("OBS-032", "API-061")
async def test_up(autojump_clock: trio.testing.MockClock) -> None:
    secrets = Secrets(admin_token=PASSWORD, metrics_token="m")
    async with open_harness(secrets=secrets) as harness, trio.open_nursery() as nursery:
        running = harness.client.start(CHAT, chat(ENDLESS, stream=True, max_tokens=100))
        await running.wait_for_piece()

        async def up() -> float:
            await trio.testing.wait_all_tasks_blocked()
            families = parse(await harness.client.send("/metrics/up", peer=REMOTE))
            [sample] = families["tandem_up"].samples
            assert families.keys() == {"tandem_up"}
            assert sample.labels == {}
            return sample.value

        assert await up() == 1
        nursery.start_soon(drain, harness.service.context)
        assert await up() == 0
        assert not running.finished.is_set()
        await running.finished.wait()
        assert await up() == 0


@pytest.mark.spec("OBS-032", "API-018", "API-019")
async def test_who_may_read_the_page(autojump_clock: trio.testing.MockClock) -> None:
    bearer = {name: {"authorization": f"Bearer {name}"} for name in ("m", PASSWORD)}

    async def statuses(**more: object) -> list[int | None]:
        async with open_harness(**more) as harness:  # type: ignore[arg-type]
            send = harness.client.send
            return [
                (await send(path, headers=headers, peer=peer)).status
                for path in ("/metrics", "/v1/dashboard/metrics")
                for headers, peer in (
                    ({}, REMOTE),
                    (bearer["m"], REMOTE),
                    (bearer[PASSWORD], REMOTE),
                    ({}, "127.0.0.1"),
                )
            ]

    assert await statuses() == [200] * 8
    assert await statuses(secrets=Secrets(metrics_token="m")) == [401, 200, 401, 200, *[200] * 4]
    assert await statuses(secrets=Secrets(admin_token=PASSWORD)) == [401, 401, 200, 200, *[200] * 4]
    both = Secrets(admin_token=PASSWORD, metrics_token="m")
    assert await statuses(secrets=both, dashboard_login=True) == [401, 200, 200, 200, 401, 401, 200, 200]


@pytest.mark.spec("OBS-101")
async def test_the_dashboards_page_is_the_same_and_takes_no_parameter(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        await harness.client.send(CHAT, chat("hi"))
        page, same = await scrape(harness), await scrape(harness, "/v1/dashboard/metrics")
        assert same.keys() - page.keys() == {"tandem_http_requests_total 200 metrics"}
        refused = await harness.client.send(f"/v1/dashboard/metrics?{MARK}=1")
        assert (refused.status, refused.json["error"]["param"]) == (400, MARK)
