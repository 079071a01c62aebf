"""A service under the mock clock: no thread, and hours in seconds (SCH-007)."""

from __future__ import annotations

import threading
import time

import pytest
import trio
import trio.testing

from tests.service.harness import chat, open_harness

CHAT = "/v1/chat/completions"


@pytest.mark.spec("SCH-007", "ENG-171")
async def test_six_hours_take_seconds_and_no_thread(autojump_clock: trio.testing.MockClock) -> None:
    before, began = threading.active_count(), time.process_time()
    script = {"say": "one two three", "prefill_ms_per_token": 20, "token_ms": 400}
    async with open_harness() as harness:
        for _ in range(180):
            calls = [harness.client.start(CHAT, chat(script, stream=stream)) for stream in (True, False)]
            assert threading.active_count() <= before
            await trio.sleep(120)
            assert [call.text for call in calls] == ["one two three"] * 2
        assert trio.current_time() >= 6 * 3600
        sight = await harness.look()
        assert (sight.served, sight.stuck, sight.errors) == (360, (), 0)
    assert time.process_time() - began < 20  # five on a quiet machine; others slow this process down by sharing a core


@pytest.mark.spec("SCH-101", "SCH-103")
async def test_a_slot_without_a_safe_point_is_seen(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        harness.client.start(CHAT, chat({"say": "a b", "token_ms": 400_000}, stream=True))
        await trio.sleep(300)
        call = await harness.client.send("/health")
        assert call.status == 200
        assert call.json["watch"]["stuck"] == ["slot 0"]
        await trio.sleep(1500)
        assert (await harness.client.send("/health")).json["watch"]["stuck"] == []
