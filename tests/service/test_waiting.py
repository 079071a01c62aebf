"""Admission and waiting, as clients see them (HTTP API sections 16 and 22, scheduling sections 2 to 4)."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing

from tandem.engine.fake import FakeEngine
from tandem.engine.memory import GIB
from tests.service.harness import Call, Harness, chat, open_harness

CHAT = "/v1/chat/completions"
LONG = {"loop": True, "say": "la ", "token_ms": 1000}
"""Runs until its limit, a token a second."""


async def hold(harness: Harness, seconds: int) -> Call:
    """Have the slot busy for `seconds`."""
    call = harness.client.start(CHAT, chat(LONG, stream=True, max_tokens=seconds))
    await call.wait_for_piece()
    return call


async def queued(harness: Harness, name: str, **more: object) -> Call:
    """A request that stands in the queue before the next one comes."""
    call = harness.client.start(CHAT, chat({"say": name}, **more))
    await trio.testing.wait_all_tasks_blocked()
    return call


@pytest.mark.spec("SCH-009")
async def test_a_free_slot_is_granted_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(CHAT, chat({"say": "x"}))
        assert call.json["timings"]["queue_ms"] == 0


@pytest.mark.spec("API-195", "SCH-010", "SCH-022", "API-026", "API-263", "SCH-115", "OBS-003")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_full_queue_refuses_at_once(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(max_queue=2) as harness:
        await hold(harness, 60)
        waiting = [await queued(harness, name) for name in "ab"]
        before = trio.current_time()
        refused = await harness.client.send(CHAT, chat("hi", stream=stream))
        assert trio.current_time() == before
        assert refused.status == 503
        assert refused.headers["retry-after"] == "5"
        assert refused.json["error"]["code"] == "queue_full"
        assert refused.json["error"]["type"] == "overloaded"
        for call in waiting:
            await call.finished.wait()
            assert call.status == 200
        assert (await harness.look()).refused == {"queue_full": 1}
        assert [outcome.finish_reason for outcome in harness.outcomes].count("refused") == 1


@pytest.mark.spec("API-196", "SCH-018", "SCH-022", "API-026")
async def test_an_unstreamed_request_is_refused_after_the_queue_timeout(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        await hold(harness, 1000)
        start = trio.current_time()
        refused = await harness.client.send(CHAT, chat("hi"))
        assert trio.current_time() - start == pytest.approx(240)
        assert refused.status == 429
        assert refused.headers["retry-after"] == "10"
        assert refused.json["error"]["code"] == "queue_timeout"
        assert (await harness.look()).waiting == 0


@pytest.mark.spec("API-142", "SCH-026", "SCH-115", "API-136", "API-146")
async def test_a_queued_stream_is_told_where_it_stands_every_ten_seconds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_harness() as harness:
        await hold(harness, 45)
        first = await queued(harness, "first", stream=True)
        second = await queued(harness, "second", stream=True)
        start = trio.current_time()
        await first.finished.wait()
        await second.finished.wait()
        assert first.opened_at == pytest.approx(start + 10)
        assert [(round(at - start), text) for at, text in first.comments] == [
            (10, "waiting, position 1, 10 s so far"),
            (20, "waiting, position 1, 20 s so far"),
            (30, "waiting, position 1, 30 s so far"),
            (40, "waiting, position 1, 40 s so far"),
        ]
        assert second.comments[0][1] == "waiting, position 2, 10 s so far"
        assert first.text == "first"
        assert second.text == "second"
        assert first.headers["content-type"] == "text/event-stream"
        assert first.is_done
        at_once = await harness.client.send(CHAT, chat({"say": "x"}, stream=True))
        own = ("x-request-id", "date")
        for early in (first, second):
            assert {k: v for k, v in early.headers.items() if k not in own} == {
                k: v for k, v in at_once.headers.items() if k not in own
            }
            assert early.headers["x-request-id"] == early.chunks[0]["id"]


@pytest.mark.spec("API-142", "API-143", "SCH-026", "SCH-033", "SCH-034")
async def test_a_queued_stream_is_told_how_long_once_that_is_known(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for _ in range(5):
            await harness.client.send(CHAT, chat(LONG, max_tokens=60))
        await hold(harness, 60)
        start = trio.current_time()
        waiting = await queued(harness, "a", stream=True)
        await waiting.finished.wait()
        assert [(round(at - start), text) for at, text in waiting.comments] == [
            (10, "waiting, position 1, about 50 s, 10 s so far"),
            (20, "waiting, position 1, about 40 s, 20 s so far"),
            (30, "waiting, position 1, about 30 s, 30 s so far"),
            (40, "waiting, position 1, about 20 s, 40 s so far"),
            (50, "waiting, position 1, about 10 s, 50 s so far"),
        ]


@pytest.mark.spec("API-197", "SCH-019", "SCH-021", "API-145", "OBS-014")
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_a_streamed_wait_ends_with_an_error_chunk_after_the_request_timeout(
    autojump_clock: trio.testing.MockClock, path: str
) -> None:
    async with open_harness(request_timeout=600) as harness:
        await hold(harness, 600)
        harness.client.start(CHAT, chat(LONG, stream=True, max_tokens=4000))
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        body = chat("hi", stream=True) if path == CHAT else {"prompt": "hi", "stream": True}
        call = await harness.client.send(path, body)
        assert trio.current_time() - start == pytest.approx(600)
        assert call.status == 200
        assert len(call.comments) == 59
        last = call.chunks[-1]
        assert last["choices"][0]["finish_reason"] == "error"
        assert last["error"]["code"] == "queue_timeout"
        assert last["error"]["status"] == 429
        assert last["error"]["retry_after"] == 10
        assert call.is_done
        await trio.testing.wait_all_tasks_blocked()
        [outcome] = [outcome for outcome in harness.outcomes if outcome.finish_reason == "refused"]
        assert outcome.status == 429


@pytest.mark.spec("SCH-021", "SCH-022", "SCH-073", "API-145", "API-200", "OBS-014")
async def test_a_streamed_wait_for_memory_ends_with_an_error_chunk(autojump_clock: trio.testing.MockClock) -> None:
    engine = FakeEngine(slots=2, worst=(GIB, 0))
    more = {"available": lambda: GIB // 2}
    async with open_harness(engine=engine, parallel=2, queue_timeout=35, more=more) as harness:
        await hold(harness, 100)
        start = trio.current_time()
        call = await harness.client.send(CHAT, chat("hi", stream=True))
        assert trio.current_time() - start == pytest.approx(35, abs=1)
        assert call.opened_at == pytest.approx(start + 10)
        lines = [(round(at - start), text.partition(" short")[2]) for at, text in call.comments]
        assert lines == [(at, f", {at} s so far") for at in (10, 20, 30)]
        last = call.chunks[-1]
        assert last["choices"][0]["finish_reason"] == "error"
        assert (last["error"]["code"], last["error"]["status"], last["error"]["retry_after"]) == ("memory", 503, 10)
        assert call.is_done
        assert (await harness.look()).refused == {"memory": 1}
        [outcome] = harness.outcomes
        assert (outcome.status, outcome.finish_reason, outcome.error_type) == (503, "refused", "memory")
        assert outcome.wait_mem_ms == pytest.approx(35_000, abs=1500)


@pytest.mark.spec("SCH-016", "API-168", "API-169")
async def test_a_queued_request_whose_client_leaves_never_runs(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        await hold(harness, 60)
        leaving = await queued(harness, "leaving")
        staying = await queued(harness, "staying", stream=True)
        leaving.leave()
        await leaving.finished.wait()
        assert (await harness.look()).waiting == 1
        opened = [call.verb for call in harness.engine.calls].count("open")
        await staying.finished.wait()
        assert staying.comments[0][1].startswith("waiting, position 1,")
        assert [call.verb for call in harness.engine.calls].count("open") == opened + 1
        assert harness.outcomes[0].finish_reason == "abandoned"
        assert (await harness.look()).abandoned == 1


@pytest.mark.spec("SCH-011", "SCH-015")
async def test_turns_are_served_in_the_order_they_came(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        await hold(harness, 5)
        calls = [await queued(harness, name) for name in "abcdef"]
        for call in calls:
            await call.finished.wait()
        await harness.look()
        starts = [outcome.request_id for outcome in harness.outcomes[1:]]
        assert starts == [call.json["id"] for call in calls]


@pytest.mark.spec("SCH-078", "SCH-016", "SCH-077")
async def test_hundreds_who_come_and_go_leave_nothing(autojump_clock: trio.testing.MockClock) -> None:
    dice = random.Random(16)
    async with open_harness(max_queue=1000) as harness:

        async def visit() -> None:
            await trio.sleep(dice.uniform(0, 100))
            script = {"say": "a b c d", "token_ms": dice.choice([0, 10, 500]), "prefill_ms_per_token": 1}
            call = harness.client.start(CHAT, chat(script, stream=dice.random() < 0.5))
            if dice.random() < 0.7:
                with trio.move_on_after(dice.uniform(0, 30)):
                    await call.finished.wait()
                call.leave()
            await call.finished.wait()

        async with trio.open_nursery() as nursery:
            for _ in range(300):
                nursery.start_soon(visit)
        sight = await harness.look()
        assert (sight.waiting, sight.running) == (0, 0)
        assert len(harness.outcomes) == 300
        assert sight.abandoned > 30
        assert sight.served > 30
        call = await harness.client.send(CHAT, chat({"say": "still here"}))
        assert call.text == "still here"
