"""A side slot serves as slot 0 does (SCH-054): the same bytes for tools, constraints, thinking, choices and limits."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from trio.testing import MockClock

from tandem.engine.fake import FakeEngine
from tests.service.harness import Harness, chat, fake, open_harness

CHAT = "/v1/chat/completions"
TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}
CALL = '<tool_call>{"name": "look", "arguments": {"at": "home"}}</tool_call>'
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"], "additionalProperties": False}
ASKED: dict[str, dict[str, Any]] = {
    "text": chat({"say": "plain words and more"}),
    "stopped": chat({"say": "one two three four"}, stop=" three"),
    "thinking": chat({"say": "<think>hm, well</think>the answer", "block": 4}, max_reasoning_tokens=2),
    "calls": chat({"say": CALL}, tools=[TOOL]),
    "forced call": chat({"say": "never"}, tools=[TOOL], tool_choice="required", max_tokens=40),
    "document": chat(
        {"say": "never"}, response_format={"type": "json_schema", "json_schema": {"name": "d", "schema": SCHEMA}}
    ),
    "choices": chat({"say": "twice"}, n=2),
    "cut": chat({"say": "word ", "loop": True}, max_tokens=7),
    "penalised": chat({"say": "la la la la la"}, repetition_penalty=1.5, seed=3, temperature=0.8, logprobs=True),
    "text completion": {"model": "M", "prompt": fake(say="continued"), "max_tokens": 90},
}
MASKED = re.compile(r'"(id|created|tandem_id)":\s*("[^"]*"|\d+)')


async def ask(harness: Harness, body: dict[str, Any], *, stream: bool) -> str:
    path = "/v1/completions" if "prompt" in body else CHAT
    call = await harness.client.send(path, {**body, "stream": stream})
    assert call.status == 200, call.body
    return MASKED.sub("", without_times(call.body.decode()))


def without_times(text: str) -> str:
    return re.sub(r'"timings":\s*\{[^}]*\}', "", text)


@pytest.mark.spec("SCH-054", "SCH-048")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ASKED)
async def test_a_side_slot_gives_the_same_bytes(autojump_clock: MockClock, name: str, stream: bool) -> None:
    body = ASKED[name]
    stream = stream and body.get("n", 1) == 1  # several choices are not streamed
    async with open_harness() as alone:
        expected = await ask(alone, body, stream=stream)
    async with open_harness(engine=FakeEngine(slots=2), parallel=2) as harness:
        holder = chat({"say": "busy ", "loop": True, "token_ms": 1000}, stream=True, max_tokens=600)
        held = harness.client.start(CHAT, holder)
        await held.wait_for_piece()
        assert await ask(harness, body, stream=stream) == expected
        await harness.look()
        assert harness.outcomes[-1].slot == 1
        held.leave()
        await held.finished.wait()


@pytest.mark.spec("SCH-054")
async def test_a_side_slots_window_is_its_own(autojump_clock: MockClock) -> None:
    """What does not fit it waits for slot 0, which it fits."""
    async with open_harness(engine=FakeEngine(slots=2, side_max_len=256), parallel=2, side_max_len=256) as harness:
        holder = chat({"say": "busy ", "loop": True, "token_ms": 100}, stream=True, max_tokens=100)
        held = harness.client.start(CHAT, holder)
        await held.wait_for_piece()
        long = await harness.client.send(CHAT, chat("word " * 300 + json.dumps({"x": 1})))
        assert long.status == 200
        await harness.look()
        assert [outcome.slot for outcome in harness.outcomes] == [0, 0]
