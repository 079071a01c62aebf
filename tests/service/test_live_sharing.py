"""The live view of a whole service where requests share it: who waits for what, guests, own work, slots, memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tandem.engine.fake import FakeEngine
from tests.service.harness import Harness, chat, fake, open_harness
from tests.service.test_admission import LONG, two_slots, words
from tests.service.test_lane import question
from tests.service.test_live_document import COMPLETIONS, look, watching
from tests.service.test_own_work import grow, warm

CHAT = "/v1/chat/completions"
ENDLESS = {"say": "MARKER-ANSWER ", "loop": True, "token_ms": 100}


def start(harness: Harness, agent: str, body: dict[str, Any], path: str = CHAT) -> None:
    harness.client.start(path, body, headers={"user-agent": agent})


def labels(event: Any) -> list[str]:
    return [row["activity"]["label"] for row in event["requests"] if row["phase"] != "done"]


def pair(**more: Any) -> dict[str, Any]:
    """Two slots whose engine decodes a token in a tenth of a second."""
    return {"engine": FakeEngine(slots=2), "parallel": 2, **more}


@pytest.mark.spec("SCH-104", "OBS-085", "OBS-063")
async def test_two_streams_and_a_third_that_waits(autojump_clock: MockClock) -> None:
    async with open_harness(**pair()) as harness:
        for agent in ("opencode/1.0", "curl/8", "python-requests/2"):
            start(harness, agent, chat(ENDLESS, stream=True))
            await trio.sleep(1)
        await trio.sleep(2.1)
        event = await look(harness)
        assert [row["slot"] for row in event["requests"]] == [0, 1, None]
        assert event["engine"]["label"].startswith("slot 0: opencode's chat writes: ")
        assert "; slot 1: curl's chat writes: " in event["engine"]["label"]
        waits = event["requests"][2]["activity"]
        assert waits["label"].startswith(
            "waits: next in line behind opencode's chat and 1 more, which has been writing for "
        )
        assert (waits["queue"]["reason"], waits["queue"]["holder"]["slot"]) == ("running", 0)
        parallel = event["parallel"]
        assert [slot["state"] for slot in parallel["slots"]] == ["writing", "writing"]
        assert [slot["request_id"] for slot in parallel["slots"]] == [
            row["request_id"] for row in event["requests"][:2]
        ]
        assert parallel["rounds"]["2"] > 0
        assert parallel["turn"]["slots"] == [0, 1]
        assert all(slot["gpu_s"] > 0 for slot in parallel["slots"])
        assert parallel["admission"]["waits"] == 0


@pytest.mark.spec("SCH-104", "SCH-033")
async def test_the_estimate_is_in_the_label(autojump_clock: MockClock) -> None:
    async with open_harness() as harness:
        for _ in range(6):
            await harness.client.send(CHAT, chat({"say": "la " * 300, "token_ms": 100}))
        start(harness, "opencode/1.0", chat({"say": "la " * 300, "token_ms": 100}, stream=True))
        await trio.sleep(2)
        start(harness, "curl/8", chat("hi"))
        await trio.sleep(2.1)
        waits = (await look(harness))["requests"][1]["activity"]
        assert waits["label"].endswith("; about 30 s to go")
        assert 20 < waits["queue"]["estimate_s"] < 35
        assert waits["queue"]["timeout_s"] == harness.service.context.settings.queue_timeout


@pytest.mark.spec("SCH-104", "SCH-046")
async def test_a_lane_guest_is_seen_under_its_holder(autojump_clock: MockClock) -> None:
    async with open_harness() as harness, watching(harness) as watched:
        start(harness, "opencode/1.0", chat(ENDLESS, stream=True))
        await trio.sleep(2)
        asked = question(prompt=fake(say="yes it is", token_ms=300))
        start(harness, "curl/8", asked, COMPLETIONS)
        await trio.sleep(2)
    guests = [row for row in watched.rows(1) if row["lane"] == "decode" and row["phase"] != "done"]
    assert guests
    assert guests[-1]["activity"]["label"].endswith(", between two steps of opencode's chat")
    assert (guests[-1]["slot"], guests[-1]["client_kind"]) == (0, "curl")
    ended = next(row for row in watched.rows(1) if row["phase"] == "done")
    assert (ended["lane"], ended["finish_reason"]) == ("decode", "stop")
    sentences = [event["engine"]["label"] for _, event in watched.events]
    assert any(each.endswith("; 1 short request between its steps") for each in sentences)


@pytest.mark.spec("SCH-104", "SCH-039")
async def test_a_lane_job_that_waits_for_a_step_is_told_so(autojump_clock: MockClock) -> None:
    async with open_harness(side_lane="decode") as harness:
        start(harness, "opencode/1.0", words({"say": "x", "prefill_ms_per_token": 1}, 20_000))
        await trio.sleep(1)
        start(harness, "curl/8", question(), COMPLETIONS)
        await trio.sleep(1)
        event = await look(harness)
        assert event["counts"]["lane"] == 1
        assert labels(event)[1] == ("waits: next in the side lane, to be served between two steps of opencode's chat")


@pytest.mark.spec("SCH-104", "SCH-073", "OBS-085")
async def test_a_wait_for_memory_says_how_many_gib(autojump_clock: MockClock) -> None:
    async with open_harness(**two_slots(1.5)) as harness:
        start(harness, "opencode/1.0", words(LONG, 2500))
        await trio.sleep(0.1)
        start(harness, "curl/8", chat({"say": "hi"}))
        await trio.sleep(1)
        event = await look(harness)
        row = event["requests"][1]
        assert (row["phase"], row["slot"]) == ("queued", 1)
        assert row["activity"]["label"] == "waits for memory: 0.5 GiB short, next of those who lack it"
        admission = event["parallel"]["admission"]
        assert (admission["reserved_bytes"], admission["available_bytes"]) == (1 << 30, 3 << 29)
        assert admission["waiting"] == ["curl's chat waits for memory: 0.5 GiB short, next of those who lack it"]
        assert event["parallel"]["slots"][1]["state"] == "memory"
        await trio.sleep(5)
        row = (await look(harness))["requests"][-1]
        assert (row["client_kind"], row["phase"]) == ("curl", "done")


@pytest.mark.spec("SCH-104")
async def test_own_work_is_shown_by_name(autojump_clock: MockClock) -> None:
    async with open_harness(engine=warm(), summary_ahead=True) as harness:
        await harness.client.send(CHAT, chat("word " * 100))
        await grow(harness)
        await trio.sleep(3)
        engine = (await look(harness))["engine"]
        assert engine["own_work"]["name"] == "summary"
        assert engine["label"] == "idle: no request runs, the service prepares a summary ahead"
        await trio.sleep(60)
        assert (await look(harness))["engine"]["own_work"] is None


@pytest.mark.spec("SCH-107", "OBS-048")
async def test_nothing_of_it_holds_a_word_of_a_prompt_or_an_answer(autojump_clock: MockClock) -> None:
    async with open_harness(**pair()) as harness, watching(harness) as watched:
        for agent in ("opencode/MARKER", "curl/MARKER", "curl/MARKER"):
            start(harness, agent, chat(ENDLESS, stream=True))
        start(harness, "curl/8", question(prompt="MARKER-PROMPT"), COMPLETIONS)
        await trio.sleep(3)
    assert "parallel" in watched.events[-1][1]
    assert "MARKER" not in json.dumps(watched.events)
