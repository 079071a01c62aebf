"""What a waiter is told of its wait, by a service that has served a while."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.service.harness import chat, open_harness

CHAT = "/v1/chat/completions"


@pytest.mark.spec("SCH-026", "SCH-033", "SCH-034")
async def test_a_waiter_is_told_about_how_long_by_how_far_the_holder_is(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for words in (200, 300, 400, 500, 600):
            await harness.client.send(CHAT, chat({"say": "la " * words, "token_ms": 100}))
        holder = harness.client.start(CHAT, chat({"say": "la " * 600, "token_ms": 100}, stream=True))
        await trio.sleep(1)
        waiter = harness.client.start(CHAT, chat("Hi", stream=True))
        await waiter.finished.wait()
        assert holder.finished.is_set()
    told = [comment for _, comment in waiter.comments if comment.startswith("waiting")]
    # After 11 s 110 tokens are written, and of the finished ones, which wrote 200 to 600, the 75th percentile 500.
    assert told[0] == "waiting, position 1, about 40 s, 10 s so far"
    # After 51 s one was longer, and has 90 to come.
    assert told[4] == "waiting, position 1, about 10 s, 50 s so far"
