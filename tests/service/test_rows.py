"""What the row of a request says, held beside the answer its client got (O1)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
import trio
import trio.testing

from tests.service.harness import Harness, chat, open_harness

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
TIMED = {"say": "one two three four five six", "token_ms": 20, "prefill_ms_per_token": 3}


async def row(harness: Harness, body: dict[str, Any], path: str = CHAT, **more: Any) -> Any:
    """The answer of a request and its row."""
    call = await harness.client.send(path, body, **more)
    await trio.testing.wait_all_tasks_blocked()
    return call, harness.outcomes[-1]


@pytest.mark.spec("OBS-009", "OBS-010", "OBS-115")
async def test_times_and_tokens_are_those_of_the_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        first = harness.client.start(CHAT, chat(TIMED))
        await trio.testing.wait_all_tasks_blocked()
        call, outcome = await row(harness, chat(TIMED))
        assert first.finished.is_set()
    usage, timings = call.json["usage"], call.json["timings"]
    assert (outcome.prompt_tokens, outcome.completion_tokens) == (usage["prompt_tokens"], usage["completion_tokens"])
    assert outcome.cached_tokens == usage["prompt_tokens_details"]["cached_tokens"]
    assert outcome.reasoning_tokens == usage["completion_tokens_details"]["reasoning_tokens"]
    assert outcome.forwarded_tokens == timings["prompt_n"]
    assert outcome.engine_cached == timings["cache_n"]
    assert outcome.conductor_hidden_tokens == 0
    assert outcome.queue_ms > 0  # behind the other
    assert outcome.ttft_ms == pytest.approx(outcome.queue_ms + outcome.prompt_ms)
    assert outcome.decode_ms == pytest.approx(timings["predicted_ms"])
    assert outcome.decode_tps == pytest.approx(1e3 * (outcome.completion_tokens - 1) / outcome.decode_ms)
    assert outcome.prefill_tps == pytest.approx(1e3 * outcome.forwarded_tokens / outcome.prompt_ms)


@pytest.mark.spec("OBS-115")
async def test_a_stream_has_its_figures_on_exactly_one_chunk(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call, outcome = await row(harness, chat(TIMED, stream=True))
    told = [chunk for chunk in call.chunks if chunk.get("usage") or chunk.get("timings")]
    assert len(told) == 1
    assert told[0]["usage"]["completion_tokens"] == outcome.completion_tokens
    assert told[0]["timings"]["prompt_n"] == outcome.forwarded_tokens


@pytest.mark.spec("OBS-011", "OBS-012")
async def test_who_asked_for_what_in_which_mode(autojump_clock: trio.testing.MockClock) -> None:
    headers = {"authorization": "Bearer sk-secret", "user-agent": "opencode/1.2", "x-tandem": "on"}
    async with open_harness() as harness:
        call, outcome = await row(harness, chat("Hi") | {"model": "gpt-4o"}, headers=headers)
        assert call.headers["x-tandem"] == outcome.conductor_mode == "raw"
        assert outcome.model == "gpt-4o"
        assert outcome.client_id == "k:" + hashlib.sha256(b"sk-secret").hexdigest()[:12]
        assert outcome.client_kind == "opencode"
        assert outcome.model_served == "TandemLLM"
        _, plain = await row(harness, chat("Hi"))
        assert plain.client_id == "anon"


@pytest.mark.spec("OBS-005")
@pytest.mark.parametrize(
    ("path", "more", "told"),
    [
        (CHAT, {}, ("on", None)),
        (CHAT, {"temperature": 0.7}, ("on", "client")),
        (CHAT, {"temperature": 0}, ("on", None)),
        (CHAT, {"reasoning_effort": "none"}, ("off", None)),
        (TEXT, {"temperature": 0.2}, (None, "client")),
    ],
)
async def test_thinking_and_sampling(
    path: str, more: dict[str, Any], told: tuple[str | None, str | None], autojump_clock: trio.testing.MockClock
) -> None:
    body = {"prompt": "Hi", **more} if path == TEXT else chat("Hi", **more)
    async with open_harness() as harness:
        _, outcome = await row(harness, body, path)
    assert (outcome.thinking, outcome.sampling) == told
    assert outcome.engine_version


@pytest.mark.spec("OBS-003")
async def test_a_request_that_never_ran_has_a_row_without_counts(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(max_queue=1) as harness:
        for _ in range(2):
            harness.client.start(CHAT, chat({"say": "a", "loop": True, "token_ms": 50}, stream=True, max_tokens=400))
        await trio.testing.wait_all_tasks_blocked()
        call, refused = await row(harness, chat("Hi"))
        assert (call.status, refused.status, refused.finish_reason, refused.error_type) == (
            503,
            503,
            "refused",
            "queue_full",
        )
        call, rejected = await row(harness, {"messages": []})
        assert (call.status, rejected.status, rejected.finish_reason) == (400, 400, "refused")
        for outcome in (refused, rejected):
            assert outcome.prompt_tokens is outcome.completion_tokens is outcome.queue_ms is outcome.ttft_ms is None
