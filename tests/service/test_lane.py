"""The side lane as clients, rows and health see it (scheduling section 5)."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest
import trio
import trio.testing

from tests.service.harness import Call, Harness, chat, fake, open_harness
from tests.service.test_metrics_routes import scrape
from tests.service.test_waiting import CHAT, hold

TEXT = "/v1/completions"
SHORT = {"say": "yes it is"}
WRITES = {"say": "la ", "loop": True, "token_ms": 50}
READS = {"say": "x", "prefill_ms_per_token": 1}


def question(**more: Any) -> dict[str, Any]:
    """A text completion is raw and has no thinking block."""
    return {"prompt": fake(**SHORT), "max_tokens": 64, **more}


async def holder(harness: Harness, *, reads: bool = False, **more: Any) -> Call:
    """Have slot 0 write, or read a prompt of a minute."""
    body = chat(READS if reads else WRITES, stream=True, max_tokens=400, **more)
    if reads:
        body["messages"].insert(0, {"role": "system", "content": "word " * 64_000})
    call = harness.client.start(CHAT, body)
    await trio.sleep(2.2)
    return call


@pytest.mark.spec("SCH-038", "SCH-039", "SCH-046", "SCH-047", "SCH-105", "OBS-009")
@pytest.mark.parametrize("lane", ["decode", "prefill"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_short_request_is_served_beside_a_long_one(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, lane: str, stream: bool
) -> None:
    caplog.set_level(logging.INFO)
    async with open_harness() as harness:
        long = await holder(harness, reads=lane == "prefill")
        start = trio.current_time()
        short = await harness.client.send(TEXT, question(stream=stream))
        assert trio.current_time() - start < 1
        assert (short.status, short.text) == (200, "yes it is")
        assert not long.finished.is_set()
        sight = await harness.look()
        [outcome] = harness.outcomes
        assert (outcome.lane, outcome.slot, outcome.finish_reason) == (lane, 0, "stop")
        assert outcome.queue_ms is not None
        assert 0 <= outcome.queue_ms < 1000
        assert outcome.lent_ms is not None
        assert outcome.wait_own_ms is outcome.wait_mem_ms is None
        [line] = [record.getMessage() for record in caplog.records if record.getMessage().startswith("[req]")]
        assert f" lane={lane} wait_ms={outcome.queue_ms:.0f} lent_ms={outcome.lent_ms:.0f}" in line
        assert (sight.lane, sight.lane_served, sight.running) == (0, {lane: 1}, 1)
        health = (await harness.client.send("/health")).json
        assert health["lane"] == {"mode": "on", "waiting": 0, "served": {lane: 1}}
        found = await scrape(harness)
        assert found[f"tandem_lane_jobs_total {lane}"] == 1
        assert found["tandem_request_decode_tokens_per_second_count"] == 0  # no speed sample
        long.leave()
        await long.finished.wait()


@pytest.mark.spec("SCH-040", "SCH-038")
@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"side_lane": "off"}, {}),
        ({}, {"max_tokens": 65}),
        ({}, {"n": 2}),
        ({"side_lane_prompt_max": 5}, {}),
        ({"side_lane_new_max": 8}, {"max_tokens": 9}),
    ],
)
async def test_who_is_no_lane_job_waits_for_the_slot(
    autojump_clock: trio.testing.MockClock, settings: dict[str, Any], more: dict[str, Any]
) -> None:
    async with open_harness(**settings) as harness:
        long = await holder(harness)
        call = await harness.client.send(TEXT, question(**more))
        assert long.finished.is_set()
        await harness.look()
        assert [outcome.lane for outcome in harness.outcomes] == [None, None]
        assert call.text == "yes it is"
        health = (await harness.client.send("/health")).json
        assert ("lane" in health) == (settings.get("side_lane") != "off")
        assert ("tandem_lane_jobs_waiting" in await scrape(harness)) == ("lane" in health)


@pytest.mark.spec("SCH-038")
async def test_an_idle_engine_needs_no_lane(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(TEXT, question())
        assert call.text == "yes it is"
        await harness.look()
        assert (harness.outcomes[0].lane, harness.outcomes[0].lent_ms) == (None, None)


@pytest.mark.spec("SCH-043")
async def test_a_job_that_no_holder_took_runs_by_itself(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(side_lane="decode") as harness:
        long = await holder(harness, reads=True)
        short = harness.client.start(TEXT, question())
        await trio.sleep(1)
        assert not short.finished.is_set()
        long.leave()
        await short.finished.wait()
        assert short.text == "yes it is"
        await harness.look()
        guest = next(outcome for outcome in harness.outcomes if outcome.endpoint == "completions")
        assert (guest.lane, guest.slot) == ("self", 0)


@pytest.mark.spec("SCH-016", "SCH-077", "SCH-079")
async def test_a_job_whose_client_leaves_is_gone_from_the_lane(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(side_lane="decode") as harness:
        long = await holder(harness, reads=True)
        short = harness.client.start(TEXT, question())
        await trio.testing.wait_all_tasks_blocked()
        assert (await harness.look()).lane == 1
        short.leave()
        await short.finished.wait()
        sight = await harness.look()
        assert (sight.lane, sight.waiting, sight.abandoned) == (0, 0, 1)
        assert harness.outcomes[0].lane is None
        long.leave()
        await long.finished.wait()


@pytest.mark.spec("SCH-115", "API-142")
async def test_a_job_that_waits_long_opens_its_stream(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(side_lane="decode") as harness:
        long = await holder(harness, reads=True)
        start = trio.current_time()
        short = harness.client.start(TEXT, question(stream=True))
        await short.wait_for_piece()
        assert short.opened_at == pytest.approx(start + 10)
        assert short.comments
        long.leave()
        await short.finished.wait()
        assert short.text == "yes it is"


@pytest.mark.spec("SCH-016")
async def test_hundreds_who_come_and_go_leave_queue_and_lane_empty(autojump_clock: trio.testing.MockClock) -> None:
    dice = random.Random(8)
    async with open_harness(max_queue=1000) as harness:
        await hold(harness, 60)

        async def visit() -> None:
            await trio.sleep(dice.uniform(0, 50))
            body = question(stream=dice.random() < 0.5, max_tokens=dice.choice([8, 64, 65]))
            call = harness.client.start(TEXT, body)
            with trio.move_on_after(dice.uniform(0, 5)):
                await call.finished.wait()
            call.leave()
            await call.finished.wait()

        async with trio.open_nursery() as nursery:
            for _ in range(300):
                nursery.start_soon(visit)
        sight = await harness.look()
        assert (sight.waiting, sight.lane) == (0, 0)
        assert sight.abandoned > 30
        assert sum(sight.lane_served.values()) > 10
        assert len(harness.outcomes) == 300 + (sight.running == 0)
