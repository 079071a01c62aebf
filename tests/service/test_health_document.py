"""The full document of GET /health, and its contract (OBS-102 to OBS-104)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio
import trio.testing

import tandem
from tandem.draining import drain
from tandem.engine.caches.caching import MemoryView
from tandem.engine.fake import FakeEngine
from tandem.engine.memory import GIB
from tests.service.harness import chat, open_harness
from tests.service.test_metrics_routes import CHAT, ENDLESS, Broken, Resident, samples_of
from tests.service.test_resident import ASKED, SYSTEM, ask, open_real
from tests.tiny import build_llama

CONTRACT = Path(tandem.__file__).parent / "contract"
SCHEMA = json.loads((CONTRACT / "health.schema.json").read_text("utf-8"))
BLOCKS = (
    *("inflight", "limits", "cache", "memory", "reasoning", "sampling", "lane", "conductor"),
    *("live", "watch", "ledger"),
)


def check(body: Any) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(body)


def test_the_example_keeps_to_the_contract() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    example = json.loads((CONTRACT / "examples" / "health.json").read_text("utf-8"))
    check(example)
    assert set(BLOCKS) <= example.keys()


@pytest.mark.spec("OBS-103", "API-053", "OBS-075")
async def test_the_document_has_every_block(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(engine=Resident(max_len=4096)) as harness:
        await harness.client.send(CHAT, chat("hi"))
        await harness.look()
        call = await harness.client.send("/health")
        assert call.status == 200
        body = call.json
        check(body)
        identity = ("status", "model", "base_model", "version", "uptime_s", "weights")
        assert set(body) == {*identity, *BLOCKS}
        assert body["inflight"]["served"] == 1
        assert body["limits"]["context_length"] == 4096
        resident = next(each for each in body["cache"]["caches"] if each["name"] == "resident")
        assert resident == {
            "name": "resident",
            "entries": 1,
            "bytes": 50,
            "budget_bytes": 1000,
            "hits": 3,
            "misses": 4,
            "evictions": 0,
            "rows": 5,
            "anchors": 2,
        }
        assert body["cache"]["base_model"] == body["base_model"] == "fake"
        assert body["cache"]["snapshot_cost"] == dict(harness.engine.cost())
        assert body["memory"]["total_bytes"] > body["memory"]["resident_bytes"] > 0
        assert body["memory"]["peak_bytes"] >= body["memory"]["resident_bytes"]
        assert "allocated_bytes" not in body["memory"]  # the fake has no weights
        assert body["lane"] == {"mode": "on", "waiting": 0, "served": {}}
        assert body["conductor"] == {"mode": "raw"}
        assert body["ledger"]["enabled"] is False


@pytest.mark.spec("OBS-103")
async def test_the_document_says_that_there_is_a_conductor(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path) as harness:
        body = (await harness.client.send("/health")).json
        check(body)
        assert body["conductor"] == {"mode": "on"}
        assert "parallel" not in body, "there are no side slots"


@pytest.mark.spec("SCH-103", "OBS-103", "SCH-106", "OBS-083", "API-055")
async def test_side_slots_are_shown_where_there_are_any(autojump_clock: trio.testing.MockClock) -> None:
    engine = FakeEngine(slots=2, worst=(1000, 0))
    more = {"available": lambda: 10_000_000}
    async with open_harness(
        engine=engine, parallel=2, parallel_floor_gb=0.001, parallel_timing=True, more=more
    ) as harness:
        for slot in (0, 1):
            harness.client.start(CHAT, chat({**ENDLESS, "prefill_ms_per_token": 1}, max_tokens=50))
            await trio.sleep(0.1 * (slot + 1))
        await trio.sleep(3)
        await harness.look()
        body = (await harness.client.send("/health")).json
        check(body)
        block = body["parallel"]
        assert [(each["slot"], each["phase"]) for each in block["slots"]] == [(0, "writing"), (1, "writing")]
        assert all(each["gpu_s"] > 0 for each in block["slots"])
        assert block["turn"].keys() == {"holder", "hand_overs"}
        times = {"round_ms", "draft_ms", "post_ms", "verify_wait_ms", "pass_ms", "accept"}
        assert block["meeting"]
        assert all(times <= each.keys() for each in block["meeting"].values())
        assert block["admission"] == {
            "reserved_bytes": 0,
            "floor_bytes": int(0.001 * GIB),
            "available_bytes": 10_000_000,
            "waits": 0,
        }
        system = (await harness.client.send("/v1/dashboard/system")).json
        assert system["parallel"] == block
        assert system["lane"] == body["lane"]
        found = samples_of(await harness.client.send("/metrics"))
        assert found["tandem_turn_hand_overs_total"] == block["turn"]["hand_overs"]
        assert found["tandem_admission_waits_total"] == 0
        assert found["tandem_slot_gpu_seconds_total 1"] > 0
        rounds = {name.split()[1]: count for name, count in found.items() if name.startswith("tandem_joint_rounds")}
        assert rounds == block["rounds"]


@pytest.mark.spec("SCH-048", "SCH-040")
async def test_what_is_off_is_not_shown(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(side_lane="off") as harness:
        await harness.client.send(CHAT, chat("hi"))
        await harness.look()
        body = (await harness.client.send("/health")).json
        assert not {"lane", "parallel"} & body.keys()
        found = samples_of(await harness.client.send("/metrics"))
        absent = ("lane_jobs_waiting", "turn_", "joint_", "admission_", "slot_gpu")
        assert not [name for name in found if name.startswith(tuple(f"tandem_{each}" for each in absent))]


class Told(Resident):
    """A fake whose suffix store has stopped."""

    def memory(self) -> MemoryView:
        return MemoryView(notes=("suffixes: the disk is full",))


async def test_what_has_stopped_is_told(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(engine=Told(max_len=4096)) as harness:
        body = (await harness.client.send("/health")).json
        check(body)
        assert body["cache"]["notes"] == ["suffixes: the disk is full"]


@pytest.mark.spec("API-054")
@pytest.mark.parametrize(
    ("effort", "shown", "default"), [("none", "off", "off"), ("off", "off", "off"), ("high",) * 2 + ("on",)]
)
async def test_thinking_that_is_off_reads_off(
    autojump_clock: trio.testing.MockClock, effort: str, shown: str, default: str
) -> None:
    async with open_harness(reasoning_effort=effort, reasoning_format="both") as harness:
        body = (await harness.client.send("/health")).json
        check(body)
        assert body["reasoning"] == {"reasoning_format": "both", "reasoning_effort": shown}
        assert body["sampling"]["thinking_default"] == default


@pytest.mark.spec("OBS-102", "OBS-104", "API-053")
async def test_it_answers_at_once_while_it_reads_a_prompt_and_while_it_drains(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_harness() as harness, trio.open_nursery() as nursery:
        body = chat({"say": "x", "prefill_ms_per_token": 1}, stream=True)
        body["messages"].insert(0, {"role": "system", "content": "word " * 64_000})
        running = harness.client.start(CHAT, body)
        await trio.sleep(10.2)
        before = trio.current_time()
        busy = await harness.client.send("/health")
        assert trio.current_time() == before
        assert (busy.status, busy.json["status"], busy.json["inflight"]["running"]) == (200, "ok", 1)
        nursery.start_soon(drain, harness.service.context)
        await trio.testing.wait_all_tasks_blocked()
        before = trio.current_time()
        draining = await harness.client.send("/health")
        assert trio.current_time() == before
        assert (draining.status, draining.json["status"]) == (503, "draining")
        check(draining.json)
        running.leave()


@pytest.mark.spec("OBS-102")
async def test_a_failed_service_still_tells_what_it_can(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(engine=Broken()) as harness:
        await harness.client.send(CHAT, chat(ENDLESS, max_tokens=2))
        harness.service.context.broken.append("queue")
        call = await harness.client.send("/health")
        assert (call.status, call.json["status"]) == (503, "failed")
        check(call.json)
        assert set(BLOCKS) - call.json.keys() == {"cache", "inflight", "lane", "watch"}


@pytest.mark.spec("OBS-036", "OBS-103", "ENG-174")
async def test_what_a_real_engine_tells(tmp_path: Path) -> None:
    async with open_real(build_llama(tmp_path / "tiny")) as (client, engine):
        first = await client.send(CHAT, ask([SYSTEM, ASKED]))
        answer = {"role": "assistant", "content": first.text}
        await client.send(CHAT, ask([SYSTEM, ASKED, answer, ASKED]))
        while (body := (await client.send("/health")).json)["inflight"]["running"]:
            check(body)  # until the sequence is closed
        state = engine.state()
        [resident] = body["cache"]["caches"]
        assert (resident["hits"], resident["misses"], resident["entries"]) == (1, 1, 1)
        assert 0 < resident["bytes"] == state["resident_bytes"] < resident["budget_bytes"]
        assert body["cache"]["snapshot_cost"] == dict(engine.cost())
        assert body["memory"]["allocated_bytes"] > state["kv_bytes"]
        found = samples_of(await client.send("/metrics"))
        assert found["tandem_cache_hits_total resident prefix"] == 1
        assert found["tandem_prefill_tokens_reused_total"] == state["resumed_tokens"] > 0
        assert found["tandem_prefill_tokens_forwarded_total"] == state["prefilled_tokens"]
        assert found["tandem_spec_decode_num_drafts_total"] == state["rounds"] > 0
        assert found["tandem_verify_seconds_count"] == state["rounds"]
        assert 0 < found["tandem_verify_seconds_sum"] < 60
        assert found["tandem_draft_seconds_count"] == 0  # no drafter
