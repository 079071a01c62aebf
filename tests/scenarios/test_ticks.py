"""Clients that leave at any moment between two steps of the event loop, when an answer of queue, slot, meeting or
memory keeper may be on its way: whatever it was, nothing of them is left, and the next ones are answered.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tandem.engine.fake import FakeEngine
from tandem.engine.memory import GIB
from tests.scenarios.stage import OneTurnHost
from tests.service.harness import Call, Harness, chat, open_harness

CHAT = "/v1/chat/completions"
TICKS = range(32)
"""A request that runs at once has its first token after about fifteen."""
LONG = chat({"say": " la", "loop": True, "token_ms": 0}, stream=True, max_tokens=60)
SHORT = chat({"say": "a b c"}, stream=True, max_tokens=32, reasoning_effort="none")
BODY = chat({"say": "a b c"}, max_tokens=100)


async def leave_after(ticks: int, call: Call) -> None:
    for _ in range(ticks):
        await trio.lowlevel.checkpoint()
    call.leave()


async def check_nothing_left(harness: Harness, slots: int) -> None:
    sight = await harness.look()
    assert (sight.waiting, sight.running, sight.lane) == (0, 0, 0)
    assert sight.memory is None or sight.memory.reserved == 0
    assert set(sight.slots.values()) <= {"idle"}
    assert harness.engine.state()["open_sequences"] == 0
    assert sorted(harness.service.context.broken + harness.service.context.switched_off) == []
    async with trio.open_nursery() as nursery:
        for _ in range(slots):
            nursery.start_soon(check_answered, harness)


async def check_answered(harness: Harness) -> None:
    with trio.fail_after(100):
        assert (await harness.client.send(CHAT, BODY)).text == "a b c"


@pytest.mark.spec("SCH-109", "SCH-016", "SCH-077")
@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("leaver", [SHORT, LONG, BODY], ids=["lane", "long", "unstreamed"])
async def test_who_leaves_at_any_moment_leaves_nothing(autojump_clock: MockClock, slots: int, leaver: Any) -> None:
    """Beside one that writes, and leaves a moment later or not at all: grants, loans and rounds are under way."""
    engine = FakeEngine(slots=slots, worst=(GIB, 0))
    free = {"available": lambda: int(1.5 * GIB)}
    settings: dict[str, Any] = {"parallel": slots, "queue_timeout": 1, "more": free}
    async with open_harness(engine=engine, engine_host=OneTurnHost(engine), **settings) as harness:
        for ticks in TICKS:
            holder = harness.client.start(CHAT, LONG)
            await holder.wait_for_piece()
            call = harness.client.start(CHAT, leaver)
            if ticks % 2:
                await leave_after(ticks // 2, holder)
            await leave_after(ticks, call)
            await call.finished.wait()
            await holder.finished.wait()
            await check_nothing_left(harness, slots)
        rows = [outcome.request_id for outcome in harness.outcomes]
        assert len(rows) == len(set(rows)) == (2 + slots) * len(TICKS)


@pytest.mark.spec("SCH-109", "SCH-018", "SCH-016")
async def test_who_leaves_as_its_wait_ends_leaves_nothing(autojump_clock: MockClock) -> None:
    """The wait's limit, the grant and the departure fall together."""
    async with open_harness(queue_timeout=1) as harness:
        for ticks in range(20):
            holder = harness.client.start(CHAT, chat({"say": "a", "token_ms": 500}))  # it and its end: a second
            await trio.testing.wait_all_tasks_blocked()
            call = harness.client.start(CHAT, BODY)
            await trio.sleep(1)
            await leave_after(ticks, call)
            await holder.finished.wait()
            await call.finished.wait()
            await check_nothing_left(harness, 1)
