"""A call that repeats itself, through a whole service and a client that tries again (A1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tandem.actors.store import Flush
from tests.conductor.monitor.calling import declare
from tests.service.harness import Harness, fake, open_harness

ENDLESS = '<tool_call>\n{"name": "write", "arguments": {"path": "a", "content": "' + "very " * 1_800
USER = {"role": "user", "content": fake(say=ENDLESS, turns=[{"say": ENDLESS}] * 4)}
TOOLS = [declare("write", "path", "content")]


async def attempts(harness: Harness, most: int, **headers: str) -> tuple[list[str], list[int], str]:
    """What a client that tries again gets: the arguments of each attempt, its prompt's tokens, and the last text."""
    messages: list[dict[str, Any]] = [USER]
    arguments: list[str] = []
    prompts: list[int] = []
    for _ in range(most):
        body = {"model": "M", "messages": messages, "tools": TOOLS, "stream": True, "max_tokens": 1_900}
        body["stream_options"] = {"include_usage": True}
        call = await harness.client.send(
            "/v1/chat/completions", body, headers={"x-session-id": "s", "x-tandem-profile": "coding", **headers}
        )
        assert call.status == 200, call.body
        prompts.append(call.chunks[-1]["usage"]["prompt_tokens"])
        deltas = [choice["delta"] for chunk in call.chunks for choice in chunk["choices"]]
        parts = [part["function"] for delta in deltas for part in delta.get("tool_calls", ())]
        if not parts:
            return arguments, prompts, "".join(delta.get("content") or "" for delta in deltas)
        arguments.append("".join(part.get("arguments", "") for part in parts))
        made = {"id": "c", "type": "function", "function": {"name": "write", "arguments": arguments[-1]}}
        failed = {"role": "tool", "tool_call_id": "c", "content": "invalid JSON"}
        messages += [{"role": "assistant", "content": "", "tool_calls": [made]}, failed]
    return arguments, prompts, ""


async def raises(harness: Harness) -> list[Any]:
    """`extra.argloop_retry` of the plans, oldest first."""
    call = await harness.client.send("/v1/conductor/events?kind=route&limit=100")
    return [row["extra"].get("argloop_retry") for row in reversed(call.json["events"])]


async def rows(harness: Harness) -> list[tuple[str, str | None, str]]:
    await harness.service.context.store.ask(Flush)
    call = await harness.client.send("/v1/conductor/events?kind=monitor&limit=100")
    found = [row for row in reversed(call.json["events"]) if row["task"] == "A1"]
    return [(row["decision"], row["action"], row["reason"]) for row in found]


@pytest.mark.spec(
    "MON-103",
    "MON-108",
    "MON-110",
    "MON-112",
    "MON-113",
    "MON-115",
    "MON-116",
    "MON-117",
    "API-123",
    "MON-111",
    "OBS-043",
)
async def test_h04_a_client_that_tries_five_times_costs_two_generations(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with open_harness(conductor_config=tmp_path) as harness:
        arguments, prompts, said = await attempts(harness, 5)
        assert [1_000 < each.count("very") < 1_100 for each in arguments] == [True, True]
        assert said.startswith("[TandemLLM makes no further attempt: 2 write calls ended in one repetition")
        assert prompts[2] - prompts[1] < 500, "the model does not read its own loop again"
        assert await rows(harness) == [
            ("GIVE_UP", "GIVE_UP", "tool_arg_loop(periodic)"),
            ("PROMPT_TAIL_NOTE", "PROMPT_TAIL_NOTE", "tool_arg_loop"),
            ("GIVE_UP", "GIVE_UP", "tool_arg_loop(periodic)"),
            ("GIVE_UP", "GIVE_UP", "tool_arg_loop_retries(2)"),
        ]
        raised = {"raised": True, "effort": "xhigh"}
        assert await raises(harness) == [None, raised, raised]
        raw, prompts, _ = await attempts(harness, 2, **{"x-tandem": "raw"})
        assert [each.count("very") > 1_800 - 10 for each in raw] == [True, True]
        assert prompts[1] - prompts[0] > 1_700, "nothing is cut"
        assert {outcome.max_tokens for outcome in harness.outcomes} == {1_900}
    lines = [message for message in caplog.messages if message.startswith("[argloop]")]
    assert len(lines) == 4
    assert not [line for line in lines if "very" in line]


@pytest.mark.spec("MON-107", "API-123")
async def test_a_call_of_which_nothing_went_out_ends_with_a_sentence(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """Without a stream, and with stop strings, there is no broken call that a client could report."""
    async with open_harness(conductor_config=tmp_path) as harness:
        for asked in ({"stream": False}, {"stream": True, "stop": ["STOP"]}):
            body = {"model": "M", "messages": [USER], "tools": TOOLS, "max_tokens": 1_900, **asked}
            call = await harness.client.send("/v1/chat/completions", body, headers={"x-tandem-profile": "coding"})
            if asked["stream"]:
                choices = [choice for chunk in call.chunks for choice in chunk["choices"]]
                text = "".join(choice["delta"].get("content") or "" for choice in choices)
            else:
                choices = call.json["choices"]
                text = choices[0]["message"]["content"]
            assert text.startswith("[TandemLLM cut off the write call at 1088 tokens"), asked
            assert text.count("[") == 1
            assert choices[-1]["finish_reason"] == "stop"
