"""What is done with the caches while nothing runs, by whom it is asked for, and what a refusal of the gate becomes."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tandem.actors.host import InlineHost
from tandem.actors.keeper import Clear, Keeper
from tandem.actors.kit import Actor, Inline, Ref, open_mailbox, supervise
from tandem.actors.queue import Enter, Granted, QueueMessage, SlotFree
from tandem.actors.slots import SlotMessage
from tandem.actors.turns import Turns
from tandem.draining import drain
from tests.service.caching import CachingFake
from tests.service.harness import FixedWall, Harness, chat, open_harness
from tests.service.test_metrics_routes import samples_of

CHAT = "/v1/chat/completions"
CLEAR = "/v1/cache/clear"
STATS = "/v1/cache/stats"
TEN_S = {"say": "a b c d e f g h i j", "token_ms": 1000}


def sizes_in(folder: Path) -> list[int]:
    return [each.stat().st_size for each in sorted(folder.iterdir())]


@pytest.mark.spec("ENG-116")
async def test_pieces_are_written_one_after_the_other_once_it_is_quiet(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    engine = CachingFake(tmp_path, pieces=3, piece_s=0.1)
    async with open_harness(engine=engine) as harness:
        start = harness.service.context.wall.now().timestamp()
        await trio.sleep(60)
        assert engine.asked_at == []  # nothing has run
        await harness.client.send(CHAT, chat(TEN_S))
        await trio.sleep(60)
    assert engine.asked_at == pytest.approx([start + 70.5, start + 70.6, start + 70.7, start + 70.8])
    assert engine.outcomes == sizes_in(tmp_path)
    assert len(engine.outcomes) == 3


@pytest.mark.spec("ENG-116", "SCH-057")
async def test_a_request_waits_for_one_piece_at_most(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = CachingFake(tmp_path, pieces=9, piece_s=0.1)
    async with open_harness(engine=engine) as harness:
        await harness.client.send(CHAT, chat("hi"))
        await trio.sleep(0.55)
        call = await harness.client.send(CHAT, chat(TEN_S))
        assert call.json["timings"]["ttft_ms"] <= 1000 + 100
        assert len(engine.outcomes) <= 2
        await trio.sleep(5)
        assert len(engine.outcomes) == 9


async def test_a_full_disk_ends_the_writing_with_one_line(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = CachingFake(tmp_path / "gone", pieces=3)
    async with open_harness(engine=engine) as harness:
        for _ in range(2):
            assert (await harness.client.send(CHAT, chat("hi"))).status == 200
            await trio.sleep(5)
    assert [type(each) for each in engine.outcomes] == [FileNotFoundError]
    lines = [record.getMessage() for record in caplog.records if "writing stopped" in record.getMessage()]
    assert lines == ["[cache] writing stopped: No such file or directory"]


@pytest.mark.spec("API-062")
async def test_the_counts_of_the_caches(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(engine=CachingFake(tmp_path), response_cache=True) as harness:
        call = await harness.client.send(STATS)
        assert call.status == 200
        assert (call.json["model"], call.json["base_model"]) == ("TandemLLM", "fake")
        assert [each["name"] for each in call.json["caches"]] == ["resident", "disk", "response"]
        counts = {"hits": 0, "misses": 0, "evictions": 0}
        assert call.json["caches"][1] == {"name": "disk", "entries": 1, "bytes": 30, "budget_bytes": None, **counts}
        assert call.json["caches"][0]["rows"] == 7
        health = (await harness.client.send("/health")).json
        assert health["cache"]["caches"] == call.json["caches"]
        assert health["memory"]["gate"] == {"reserved_bytes": 4, "ceiling_bytes": 5, "peak_bytes": 6, "events": []}
        samples = samples_of(await harness.client.send("/metrics"))
        assert samples["tandem_cache_bytes disk"] == 30
        assert samples["tandem_cache_evictions_total response"] == 0
        assert (await harness.client.send(f"{STATS}?x=1")).status == 400


@pytest.mark.spec("API-063", "ENG-123")
async def test_clear_names_what_it_freed(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = CachingFake(tmp_path)
    async with open_harness(engine=engine) as harness:
        call = await harness.client.send(CLEAR, {"caches": ["disk"]})
        assert (call.status, call.json) == (200, {"freed_bytes": {"disk": 30}})
        assert engine.held == {"resident": 70, "disk": 0}
        call = await harness.client.send(CLEAR, b"", method="POST")
        assert call.json == {"freed_bytes": {"resident": 70, "disk": 0}}
        for names in (["nonsense"], "disk", [["disk"]], ["suffix"], 3):
            refused = await harness.client.send(CLEAR, {"caches": names})
            assert refused.status == 400, refused.body
        engine.fails = True
        assert (await harness.client.send(CLEAR, {})).status == 500
        assert (await harness.client.send(CHAT, chat({"say": "on"}))).text == "on"


@pytest.mark.spec("API-063", "ENG-123")
async def test_clear_waits_for_the_generation_and_no_longer_than_30_s(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    engine = CachingFake(tmp_path)
    async with open_harness(engine=engine) as harness:
        running = harness.client.start(CHAT, chat(TEN_S))
        await trio.sleep(1)
        behind = harness.client.start(CHAT, chat({"say": "next"}))
        assert (await harness.client.send(CLEAR, {})).json["freed_bytes"] == {"resident": 70, "disk": 30}
        assert trio.current_time() == pytest.approx(11, abs=0.5)
        await behind.finished.wait()
        assert (running.status, behind.text) == (200, "next")
        engine.held["disk"] = 30
        long = harness.client.start(CHAT, chat({"say": "la", "loop": True, "token_ms": 1000}, max_tokens=60))
        await trio.sleep(1)
        asked_at = trio.current_time()
        refused = await harness.client.send(CLEAR, {})
        assert trio.current_time() - asked_at == pytest.approx(30)
        assert (refused.status, refused.headers["retry-after"]) == (503, "30")
        assert engine.held["disk"] == 30
        await long.finished.wait()
        assert (await harness.client.send(CLEAR, {})).status == 200


@pytest.mark.spec("API-063", "SCH-015")
async def test_after_a_clear_the_slot_goes_back_however_full_the_queues_inbox_is(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    engine = CachingFake(tmp_path)
    queue: Ref[QueueMessage]
    queue, inbox = open_mailbox("queue", 1)
    slot: Ref[SlotMessage]
    slot, _ = open_mailbox("slot 0", 1)
    turns = Turns(quantum_s=0.05)
    keeper = Keeper(
        engine=engine, host=InlineHost(engine), turns=turns.ref, queue=queue, blocking=Inline(), wall=FixedWall()
    )
    async with trio.open_nursery() as nursery:
        actors: list[Actor[Any]] = [turns, keeper]
        for actor in actors:
            await nursery.start(partial(supervise, actor, lambda name, defect: pytest.fail(name)))
        nursery.start_soon(partial(keeper.ref.ask, lambda reply: Clear(None, reply)))
        entered = await inbox.receive()
        assert isinstance(entered, Enter)
        await queue.tell(SlotFree(7))  # somebody else's message fills it
        entered.reply.send(Granted(0, slot))
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(1):
            assert [await inbox.receive() for _ in range(2)] == [SlotFree(7), SlotFree(0)]
        nursery.cancel_scope.cancel()


@pytest.mark.spec("SCH-095", "API-205")
async def test_a_drain_spills_once_all_is_answered(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = CachingFake(tmp_path)
    async with open_harness(engine=engine) as harness, trio.open_nursery() as nursery:
        running = harness.client.start(CHAT, chat(TEN_S))
        await trio.sleep(1)
        nursery.start_soon(drain, harness.service.context)
        await trio.sleep(1)
        assert engine.spills == 0
        assert (await harness.client.send(CLEAR, {})).json["error"]["code"] == "draining"
        await running.finished.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert engine.spills == 1


@pytest.mark.spec("SCH-096")
async def test_a_drain_in_a_hurry_spills_nothing(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = CachingFake(tmp_path)
    async with open_harness(engine=engine) as harness:
        harness.service.context.hurry.set()
        await drain(harness.service.context)
    assert engine.spills == 0


async def test_a_spill_that_fails_ends_no_drain(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = CachingFake(tmp_path)
    engine.fails = True
    async with open_harness(engine=engine) as harness:
        await drain(harness.service.context)
    assert "the conversation is not kept for the next start: the disk is gone" in caplog.text


async def refused_prompt(harness: Harness, **more: Any) -> Any:
    words = {"role": "system", "content": "word " * 1500}  # two chunks: the first has gone well
    body = chat("hi", **more)
    return await harness.client.send(CHAT, body | {"messages": [words, *body["messages"]]})


@pytest.mark.spec("API-199", "OBS-044")
async def test_a_prompt_without_memory_is_a_503(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = CachingFake(tmp_path)
    async with open_harness(engine=engine) as harness:
        engine.refuses = True
        for stream in (False, True):
            call = await refused_prompt(harness, stream=stream)
            assert (call.status, call.headers["retry-after"]) == (503, "10")
            assert call.json["error"]["code"] == "memory"
        engine.refuses = False
        assert (await refused_prompt(harness)).status == 200
        sight = await harness.look()
        assert dict(sight.refused) == {"memory": 2}
        assert [(each.status, each.finish_reason, each.error_type) for each in harness.outcomes[:2]] == [
            (503, "refused", "memory")
        ] * 2
        samples = samples_of(await harness.client.send("/metrics"))
        assert samples["tandem_requests_refused_total memory"] == 2
    lines = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert [each.getMessage().split(" ")[0] for each in lines] == ["[memory]"] * 2


@pytest.mark.spec("API-199", "API-145")
async def test_an_open_stream_is_told_that_there_is_no_memory(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    engine = CachingFake(tmp_path)
    async with open_harness(engine=engine, prefill_heartbeat_s=0.5) as harness:
        engine.refuses = True
        words = {"role": "system", "content": "word " * 1500}
        body = chat({"say": "x", "prefill_ms_per_token": 2}, stream=True)
        call = await harness.client.send(CHAT, body | {"messages": [words, *body["messages"]]})
        assert call.status == 200
        [error] = [chunk["error"] for chunk in call.chunks if "error" in chunk]
        assert (error["code"], error["retry_after"]) == ("memory", 10)
        assert call.is_done
