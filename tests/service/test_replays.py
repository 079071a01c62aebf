"""The response cache: an identical request at temperature 0 is answered from memory (ENG-120, API-162)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tandem.draining import drain
from tests.service.harness import Call, Harness, chat, open_harness
from tests.service.test_metrics_routes import samples_of

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
SCRIPT = {"say": "one two three four five", "token_ms": 100}
THINKS = {"say": "<think>\nwell\n</think>\n\nyes", "token_ms": 100}
CALL = "<tool_call>\n<function=ls>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>"
TOOL = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {"x": {}}}}}


def opened(harness: Harness) -> int:
    """Sequences the engine has had."""
    return harness.engine.state()["requests"]


def bare(body: Any) -> Any:
    """Without what every answer has of its own."""
    return {name: value for name, value in body.items() if name not in ("id", "created", "usage", "timings")}


def chunks(call: Call) -> list[Any]:
    return [bare(chunk) for chunk in call.chunks]


@pytest.mark.spec("ENG-120", "API-162")
async def test_an_identical_request_is_answered_from_memory(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(response_cache=True) as harness:
        first, again = [await harness.client.send(CHAT, chat(SCRIPT)) for _ in range(2)]
        assert opened(harness) == 1
        assert bare(again.json) == bare(first.json)
        assert again.json["id"] != first.json["id"]
        usage, timings = again.json["usage"], again.json["timings"]
        assert usage["completion_tokens"] == first.json["usage"]["completion_tokens"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] > 0
        assert (timings["prompt_n"], timings["cache_n"], timings["cache_source"]) == (
            0,
            usage["prompt_tokens"],
            "response",
        )
        assert timings["total_ms"] < first.json["timings"]["total_ms"]
        await harness.look()
        row = harness.outcomes[1]
        assert (row.status, row.finish_reason, row.cache_source, row.slot) == (200, "stop", "response", None)
        assert (row.forwarded_tokens, row.cached_tokens) == (0, usage["prompt_tokens"])
        samples = samples_of(await harness.client.send("/metrics"))
        assert samples["tandem_cache_hits_total response response"] == 1
        assert samples["tandem_cache_misses_total response"] == 1


@pytest.mark.spec("ENG-120", "API-162")
@pytest.mark.parametrize(
    "more",
    [
        {"content": SCRIPT},
        {"content": THINKS, "reasoning_format": "reasoning_content"},
        {"content": {"say": CALL}, "tools": [TOOL]},
        {"content": SCRIPT, "logprobs": True, "top_logprobs": 2},
        {"content": {"say": "one two three"}, "stop": [" three"]},
    ],
    ids=["plain", "thinks", "calls", "logprobs", "stop"],
)
async def test_a_stream_comes_again_in_the_same_chunks(
    autojump_clock: trio.testing.MockClock, more: dict[str, Any]
) -> None:
    async with open_harness(response_cache=True) as harness:
        first, again = [await harness.client.send(CHAT, chat(**more, stream=True)) for _ in range(2)]
        assert opened(harness) == 1
        assert chunks(again) == chunks(first)
        assert len(again.chunks) > 2
        assert again.is_done


@pytest.mark.spec("ENG-120")
@pytest.mark.parametrize(
    "other",
    [
        {"max_tokens": 3},
        {"stop": ["two"]},
        {"temperature": 0.5},
        {"n": 2},
        {"stream": True},
        {"tools": [TOOL]},
        {"logit_bias": {"5": 1}},
        {"presence_penalty": 1},
        {"logprobs": True},
        {"thinking_budget_tokens": 4},
        {"response_format": {"type": "json_object"}},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_another_request_is_computed(autojump_clock: trio.testing.MockClock, other: dict[str, Any]) -> None:
    async with open_harness(response_cache=True) as harness:
        await harness.client.send(CHAT, chat({"say": '{"a": 1}'}))
        call = await harness.client.send(CHAT, chat({"say": '{"a": 1}'}, **other))
        assert call.status == 200, call.body
        assert opened(harness) == 2


async def test_what_matters_to_no_token_asks_the_same(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(response_cache=True) as harness:
        await harness.client.send(CHAT, chat(SCRIPT))
        await harness.client.send(CHAT, chat(SCRIPT, model="other", user="x", seed=7, conversation_id="y"))
        assert opened(harness) == 1
        text = {"prompt": "@fake " + '{"say": "a"}', "temperature": 0}
        await harness.client.send(TEXT, text)
        assert (await harness.client.send(TEXT, text)).json["timings"]["cache_source"] == "response"


@pytest.mark.spec("ENG-120")
async def test_a_client_keeps_its_request_out(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(response_cache=True) as harness:
        send = harness.client.send
        await send(CHAT, chat(SCRIPT), headers={"cache-control": "no-store"})
        await send(CHAT, chat(SCRIPT))
        assert opened(harness) == 2  # the first was not kept
        await send(CHAT, chat(SCRIPT), headers={"cache-control": "max-age=0, No-Cache"})
        await send(CHAT, chat(SCRIPT), headers={"x-tandem-regenerate": "1"})
        assert opened(harness) == 4
        await send(CHAT, chat(SCRIPT))
        assert opened(harness) == 4


@pytest.mark.spec("ENG-120")
async def test_an_answer_that_was_cut_short_is_not_kept(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(response_cache=True, request_timeout=0.25) as harness:
        for _ in range(2):
            call = await harness.client.send(CHAT, chat(SCRIPT))
            assert call.json["choices"][0]["finish_reason"] == "timeout"
        left = harness.client.start(CHAT, chat({**SCRIPT, "say": "x y z"}, stream=True))
        await left.wait_for_piece(2)
        left.leave()
        await left.finished.wait()
        await harness.look()
        assert opened(harness) == 3
        assert harness.service.context.responses is not None
        assert harness.service.context.responses.state()["response_cache_entries"] == 0


@pytest.mark.spec("ENG-120", "API-063")
async def test_it_can_be_cleared_and_lets_go_in_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(response_cache=True, response_cache_ttl=60) as harness:
        await harness.client.send(CHAT, chat(SCRIPT))
        freed = (await harness.client.send("/v1/cache/clear", {"caches": ["response"]})).json["freed_bytes"]
        assert freed["response"] > 0
        await harness.client.send(CHAT, chat(SCRIPT))
        assert opened(harness) == 2
        await trio.sleep(61)
        await harness.client.send(CHAT, chat(SCRIPT))
        assert opened(harness) == 3


@pytest.mark.spec("API-204")
async def test_a_drain_answers_nothing_from_memory(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(response_cache=True) as harness:
        await harness.client.send(CHAT, chat(SCRIPT))
        await drain(harness.service.context)
        assert (await harness.client.send(CHAT, chat(SCRIPT))).status == 503


@pytest.mark.spec("ENG-120")
async def test_it_is_off(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for _ in range(2):
            await harness.client.send(CHAT, chat(SCRIPT))
        assert opened(harness) == 2
        assert "response" not in str((await harness.client.send("/v1/cache/stats")).json["caches"])
