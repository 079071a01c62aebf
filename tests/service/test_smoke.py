"""The first look at a whole service."""

from __future__ import annotations

import trio.testing

from tests.service.harness import chat, open_harness


async def test_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send("/v1/chat/completions", chat({"say": "Hello there, friend"}))
        print(call.status, call.body)
        assert call.text == "Hello there, friend"
        call = await harness.client.send("/v1/chat/completions", chat({"say": "Hello there, friend"}, stream=True))
        print(call.body.decode())
        assert call.text == "Hello there, friend"
        print(harness.outcomes)
        call = await harness.client.send("/health")
        print(call.json)
