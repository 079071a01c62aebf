"""Clients that leave, in every phase, and a service that drains (HTTP API sections 19 and 23, scheduling 10 and 12)."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import trio
import trio.testing

from tandem.actors.slots import Abort
from tandem.conductor.sessions import SessionDelta, SessionFacts
from tandem.draining import drain
from tests.service.harness import Harness, chat, open_harness

CHAT = "/v1/chat/completions"
ENDLESS = {"say": "la ", "loop": True, "token_ms": 100}
SLOW_READ = {"say": "x", "prefill_ms_per_token": 1}


async def freed(harness: Harness) -> float:
    """Seconds until the slot is free."""
    start = trio.current_time()
    while (await harness.look()).running:
        await trio.sleep(0.01)
    return trio.current_time() - start


@pytest.mark.spec("API-167", "API-168", "API-169", "SCH-077", "ENG-036")
@pytest.mark.parametrize("streamed", [True, False])
async def test_leaving_while_it_writes(autojump_clock: trio.testing.MockClock, streamed: bool) -> None:
    async with open_harness() as harness:
        call = harness.client.start(CHAT, chat(ENDLESS, stream=streamed, max_tokens=4096))
        await trio.sleep(1.05)
        call.leave()
        assert await freed(harness) <= 0.11
        [outcome] = harness.outcomes
        assert outcome.finish_reason == "abandoned"
        assert outcome.completion_tokens in (11, 12)
        assert outcome.error_type is None
        sight = await harness.look()
        assert (sight.abandoned, sight.errors) == (1, 0)
        assert (await harness.client.send(CHAT, chat({"say": "next"}))).text == "next"


@pytest.mark.spec("API-167", "SCH-077")
async def test_leaving_while_the_prompt_is_read(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        body = chat(SLOW_READ, stream=True)
        body["messages"].insert(0, {"role": "system", "content": "word " * 64_000})
        call = harness.client.start(CHAT, body)
        await trio.sleep(10.2)
        call.leave()
        assert await freed(harness) <= 1.1
        [outcome] = harness.outcomes
        assert outcome.finish_reason == "abandoned"
        assert outcome.completion_tokens == 0
        assert harness.engine.calls[-1].verb == "close"


@pytest.mark.spec("API-167", "SCH-077")
async def test_leaving_twice_is_one_abort(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness, trio.open_nursery() as nursery:
        call = harness.client.start(CHAT, chat(ENDLESS, stream=True))
        await trio.sleep(1)
        nursery.start_soon(drain, harness.service.context)
        await trio.sleep(0.02)
        await harness.service.slots[0].tell(Abort("stopping"))
        call.leave()
        await freed(harness)
        assert len(harness.outcomes) == 1
        assert [made.verb for made in harness.engine.calls].count("close") == 1


@pytest.mark.spec("API-003", "SCH-063")
async def test_a_client_that_reads_nothing_is_gone_after_a_minute(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = harness.client.start(CHAT, chat(ENDLESS, stream=True, max_tokens=100_000))
        await call.wait_for_piece()
        call.stall()
        await trio.sleep(59)
        assert (await harness.look()).running == 1
        await trio.sleep(3)
        assert (await harness.look()).running == 0
        call.leave()
        await call.finished.wait()
        await harness.look()
        assert harness.outcomes[0].finish_reason == "abandoned"


@pytest.mark.spec("API-202", "API-203", "API-204", "SCH-092", "SCH-093", "SCH-022", "API-053", "OBS-102")
async def test_a_drain_lets_what_runs_finish_and_refuses_the_rest(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness, trio.open_nursery() as nursery:
        running = harness.client.start(CHAT, chat({"say": "one two three", "token_ms": 1000}, stream=True))
        await trio.sleep(0.5)
        waiting = harness.client.start(CHAT, chat("hi"))
        open_stream = harness.client.start(CHAT, chat("hi", stream=True))
        await trio.testing.wait_all_tasks_blocked()
        drained = trio.Event()

        async def drain_it() -> None:
            await drain(harness.service.context)
            drained.set()

        nursery.start_soon(drain_it)
        await trio.testing.wait_all_tasks_blocked()
        for refused in (waiting, open_stream, await harness.client.send(CHAT, chat("late"))):
            await refused.finished.wait()
            assert refused.status == 503
            assert refused.headers["retry-after"] == "30"
            assert refused.json["error"]["code"] == "draining"
        health = await harness.client.send("/health")
        assert (health.status, health.json["status"]) == (503, "draining")
        assert not drained.is_set()
        await running.finished.wait()
        await drained.wait()
        assert running.text == "one two three"
        assert running.is_done


@pytest.mark.spec("API-204", "SCH-093", "API-145")
async def test_a_drain_ends_a_stream_that_waits_and_is_open(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness, trio.open_nursery() as nursery:
        harness.client.start(CHAT, chat({"say": "one two", "token_ms": 20_000}, stream=True))
        await trio.testing.wait_all_tasks_blocked()
        waiting = harness.client.start(CHAT, chat("hi", stream=True))
        await trio.sleep(15)
        nursery.start_soon(drain, harness.service.context)
        await waiting.finished.wait()
        assert waiting.status == 200
        assert waiting.chunks[-1]["error"]["code"] == "draining"
        assert waiting.chunks[-1]["error"]["retry_after"] == 30
        assert waiting.is_done


async def test_the_second_signal_ends_what_runs_at_its_next_safe_point(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness, trio.open_nursery() as nursery:
        call = harness.client.start(CHAT, chat(ENDLESS, stream=True))
        await trio.sleep(1)
        nursery.start_soon(drain, harness.service.context)
        await harness.service.slots[0].tell(Abort("the server is stopping"))
        start = trio.current_time()
        await call.finished.wait()
        assert trio.current_time() - start <= 0.11
        assert call.chunks[-1]["choices"][0]["finish_reason"] == "error"
        assert call.is_done


@pytest.mark.spec("SCH-006", "API-053", "OBS-102")
async def test_the_defect_of_an_essential_actor_drains(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_harness() as harness:

        def broken(*_: object) -> None:
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr("tandem.actors.job.Job.hand_out", broken)
        call = await harness.client.send(CHAT, chat("hi"))
        assert call.status == 500
        assert harness.service.stop.is_set()
        health = await harness.client.send("/health")
        assert (health.status, health.json["status"]) == (503, "failed")


@pytest.mark.spec("SCH-006")
async def test_an_optional_actor_that_keeps_failing_stays_off_and_health_says_so(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_harness() as harness:

        def broken(*_: object) -> None:
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr("tests.service.harness.MemoryStore._take", broken)
        for _ in range(5):
            assert (await harness.client.send(CHAT, chat({"say": "served"}))).text == "served"
            await trio.testing.wait_all_tasks_blocked()
        health = await harness.client.send("/health")
        assert (health.status, health.json["status"]) == (200, "ok")
        assert health.json["watch"]["off"] == ["store"]
        assert not harness.service.stop.is_set()


@pytest.mark.spec("NOTE-009", "API-205")
async def test_what_a_session_learns_of_the_last_answer_is_kept(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """A session is found by its whole first turn, which is heard while the client reads what the slot has written."""
    async with open_harness(conductor_config=tmp_path) as harness:
        here = harness.service.context
        async with trio.open_nursery() as nursery:
            with here.traffic.one():
                nursery.start_soon(drain, here)
                await trio.sleep(0.5)
                view = here.sessions.open(SessionFacts(key="c:last", today=datetime.date(2026, 1, 2)))
                here.sessions.commit(view, SessionDelta(turn=True))
        assert b"c:last" in (tmp_path / "state" / "sessions.json").read_bytes()
