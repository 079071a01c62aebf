"""Admission by bytes in a whole service: who waits for memory, for how long, and what everybody is told of it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tandem.engine.fake import FakeEngine
from tandem.engine.memory import GIB
from tests.service.harness import chat, open_harness

CHAT = "/v1/chat/completions"
LONG = {"say": "a b c d e f g h i j", "token_ms": 1000, "prefill_ms_per_token": 1}


def words(script: dict[str, Any], count: int, **more: Any) -> dict[str, Any]:
    body = chat(script, **more)
    return body | {"messages": [{"role": "system", "content": "word " * count}, *body["messages"]]}


def two_slots(free: float) -> dict[str, Any]:
    """Two slots whose requests need a GiB each, where `free` GiB could be taken."""
    engine = FakeEngine(slots=2, worst=(GIB, 0), grid=512)
    return {"engine": engine, "parallel": 2, "more": {"available": lambda: int(free * GIB)}}


@pytest.mark.spec("SCH-073", "SCH-075", "SCH-076", "API-200")
async def test_a_request_waits_until_the_other_has_read_its_prompt(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with open_harness(**two_slots(1.5)) as harness:
        first = harness.client.start(CHAT, words(LONG, 2500))  # two and a half seconds of prefill
        await trio.sleep(0.1)
        begun = trio.current_time()
        second = await harness.client.send(CHAT, chat({"say": "hi", "token_ms": 0}))
        assert 2.4 < trio.current_time() - begun < 4.5
        assert first.status is None
        sight = await harness.look()
        assert sight.memory is not None
        assert (sight.memory.reserved, sight.memory.waits) == (0, 1)
        assert second.text == "hi"
        waited = harness.outcomes[-1].wait_mem_ms
        assert waited == pytest.approx(3000)
        assert (harness.outcomes[-1].queue_ms or 0) >= 3000
        await first.finished.wait()
        await harness.look()
        assert harness.outcomes[-1].wait_mem_ms is None
    lines = [message for message in caplog.messages if message.startswith("[memory]")]
    name = second.headers["x-request-id"]
    assert lines == [
        f"[memory] {name} waits: 0.50 GiB short beside 1 in flight",
        f"[memory] {name} admitted after 3.0 s",
    ]


@pytest.mark.spec("SCH-074", "SCH-112")
async def test_who_is_left_alone_is_let_in(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with open_harness(**two_slots(0.5)) as harness:
        first = harness.client.start(CHAT, chat(LONG))
        await trio.sleep(0.1)
        second = await harness.client.send(CHAT, chat({"say": "hi", "token_ms": 0}))
        assert (first.finished.is_set(), second.text) == (True, "hi")
    assert f"[memory] {second.headers['x-request-id']} admitted alone after" in caplog.text


@pytest.mark.spec("SCH-073", "API-200")
@pytest.mark.parametrize("stream", [False, True])
async def test_after_the_queue_timeout_it_is_a_503(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(**two_slots(0.5), queue_timeout=60) as harness:
        harness.client.start(CHAT, chat({"say": "la", "loop": True, "token_ms": 1000}, max_tokens=200))
        await trio.sleep(0.1)
        begun = trio.current_time()
        call = await harness.client.send(CHAT, chat("hi", stream=stream))
        assert trio.current_time() - begun == pytest.approx(60, abs=1.5)
        error = call.chunks[-1]["error"] if call.status == 200 else call.json["error"]
        assert error["code"] == "memory"
        if not stream:
            assert (call.status, call.headers["retry-after"]) == (503, "10")
        sight = await harness.look()
        assert sight.memory is not None
        assert sight.memory.reserved == 0, "the other has read its prompt"


@pytest.mark.spec("SCH-073")
async def test_the_stream_says_the_position_and_what_is_missing(autojump_clock: trio.testing.MockClock) -> None:
    engine = FakeEngine(slots=3, worst=(GIB, 0))
    async with open_harness(engine=engine, parallel=3, more={"available": lambda: GIB // 2}) as harness:
        harness.client.start(CHAT, chat({"say": "la", "loop": True, "token_ms": 1000}, max_tokens=40))
        await trio.sleep(0.1)
        waiting = []
        for name in "ab":
            waiting.append(harness.client.start(CHAT, chat(name, stream=True)))
            await trio.sleep(0.1)
        for call in waiting:
            await call.finished.wait()
        told = [[comment for _, comment in call.comments if "memory" in comment][-1] for call in waiting]
        assert "position 1" in told[0]
        assert "position 2" in told[1]
        assert all(call.text for call in waiting)


@pytest.mark.spec("SCH-076")
async def test_a_client_that_leaves_while_it_waits_leaves_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(**two_slots(0.5)) as harness:
        harness.client.start(CHAT, chat({"say": "la", "loop": True, "token_ms": 1000}, max_tokens=30))
        await trio.sleep(0.1)
        gone = harness.client.start(CHAT, chat("hi", stream=True))
        await trio.sleep(20)
        gone.leave()
        await trio.sleep(2)
        sight = await harness.look()
        assert sight.slots == {0: "writing", 1: "idle"}
        assert (await harness.client.send(CHAT, chat("hi"))).status == 200


@pytest.mark.spec("SCH-048")
async def test_with_one_slot_nobody_is_asked(autojump_clock: trio.testing.MockClock) -> None:
    def available() -> int:
        raise AssertionError("nobody needs to know")

    async with open_harness(more={"available": available}) as harness:
        assert (await harness.client.send(CHAT, chat({"say": "hi"}))).text == "hi"
        assert (await harness.look()).memory is None
