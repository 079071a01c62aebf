"""What a plan changes in an answer: stop strings, refused calls, stray closers, the secret mask (ANS, MEM), and how it
is sampled. Streamed and whole answers agree, and without a plan all is as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tandem.actors.store import Flush
from tandem.conductor.lines.frame import without_lines
from tests.service.harness import Harness, fake, open_harness
from tests.service.said import Said, said

CHAT = "/v1/chat/completions"
CALL = "<tool_call>\n<function=f>\n<parameter=x>\nsk-abc123\n</parameter>\n</function>\n</tool_call>"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CHAT_APP = {"X-Tandem-Client": "chat-app"}


def asked(text: str, result: str | None = None, **more: Any) -> dict[str, Any]:
    """A request that is answered with `text`; with `result`, after a call that brought it."""
    script = {"say": text} if result is None else {"say": "-", "turns": [{"say": text}]}
    messages: list[dict[str, Any]] = [{"role": "user", "content": fake(**script)}]
    if result is not None:
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
        ]
    return {"model": "M", "messages": messages, **more}


async def both(harness: Harness, body: dict[str, Any], headers: Mapping[str, str | None] = CHAT_APP) -> Said:
    """What is said, streamed and whole alike; state lines left out."""
    whole = said(await harness.client.send(CHAT, body, headers=headers))
    streamed = said(await harness.client.send(CHAT, {**body, "stream": True}, headers=headers))
    for each in (whole, streamed):
        each.content = without_lines(each.content or "")
    assert (streamed.content, streamed.reasoning or "") == (whole.content, whole.reasoning or "")
    assert streamed.finish == whole.finish
    assert [call.arguments for call in streamed.calls] == [call.arguments for call in whole.calls]
    return whole


async def extras(harness: Harness) -> list[dict[str, Any]]:
    """`extra` of the router's rows, oldest first."""
    await harness.service.context.store.ask(Flush)
    call = await harness.client.send("/v1/conductor/decisions")
    return [row["extra"] or {} for row in reversed(call.json["decisions"])]


@pytest.mark.spec("MEM-010", "MEM-011", "MEM-012", "MEM-013", "API-081", "API-082", "OBS-043")
async def test_a_secret_of_a_result_is_not_repeated(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    text = f"<think>it is sk-abc123</think>\n\nThe key is sk-abc123, not sk-abc124.{CALL}"
    async with open_harness(conductor_config=tmp_path) as harness:
        body = asked(text, "found sk-abc123 there", tools=[TOOL])
        masked = await both(harness, body)
        assert masked.reasoning == "it is sk-[redacted]"
        assert masked.content == "The key is sk-[redacted], not sk-abc124."
        assert masked.calls[0].values == {"x": "sk-abc123"}
        plain = await both(harness, asked(text, "nothing there", tools=[TOOL]))
        raw = await both(harness, body, {**CHAT_APP, "X-Tandem": "raw"})
        assert plain.content == "The key is sk-abc123, not sk-abc124."
        assert raw.content == text.removesuffix(CALL)
        rows = await extras(harness)
        assert [row.get("secret_mask") for row in rows] == [{"api_key": 2}, {"api_key": 2}, None, None]
        assert "abc123" not in str(rows)
    lines = [record.getMessage() for record in caplog.records if "[secret_mask]" in record.getMessage()]
    assert len(lines) == 2
    assert all(line.endswith("masked api_key=2") for line in lines)
    assert "sk-abc123" not in caplog.text


@pytest.mark.spec("ANS-002")
async def test_a_call_that_nobody_offered_is_not_sent(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path) as harness:
        refused = await both(harness, asked(f"I look.{CALL}"))
        assert (refused.content, refused.calls, refused.finish) == ("I look.", [], "stop")
        assert [row["calls_refused"] for row in await extras(harness)] == [["f"], ["f"]]
        raw = await both(harness, asked(f"I look.{CALL}"), {**CHAT_APP, "X-Tandem": "raw"})
        assert raw.content == f"I look.{CALL}"
        shadow = await both(harness, asked(f"I look.{CALL}"), {**CHAT_APP, "X-Tandem": "shadow"})
        assert shadow.content == raw.content


@pytest.mark.spec("ANS-003")
async def test_a_second_closer_is_not_sent(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    text = "<think>t</think>\n\na\n</think>\nb"
    async with open_harness(conductor_config=tmp_path) as harness:
        assert (await both(harness, asked(text))).content == "a\nb"
        assert [row["stray_close"] for row in await extras(harness)] == [1, 1]
        raw = await both(harness, asked(text), {**CHAT_APP, "X-Tandem": "raw"})
        assert raw.content == text


@pytest.mark.spec("ANS-001")
async def test_stop_strings_match_in_the_answer_alone(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    text = "<think>a\n\nb</think>\n\nc\n\nd"
    async with open_harness(conductor_config=tmp_path) as harness:
        planned = await both(harness, asked(text, stop="\n\n"))
        assert (planned.reasoning, planned.content) == ("a\n\nb", "c")
        assert (await both(harness, asked("\n\nc\n\nd", stop="\n\n"))).content == "\n\nc"
        raw = await both(harness, asked(text, stop="\n\n"), {**CHAT_APP, "X-Tandem": "raw"})
        assert raw.content == "<think>a"


@pytest.mark.spec("SMP-001", "SMP-002", "SMP-003", "SMP-004", "API-054", "API-159", "API-176", "API-179", "OBS-043")
async def test_a_regenerate_is_drawn_and_counted(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    drawn_with: dict[str, Any] = {"regenerate_temperature": 0.9, "regenerate_top_p": 0.5, "regenerate_top_k": 7}
    async with open_harness(conductor_config=tmp_path, **drawn_with) as harness:
        headers = {**CHAT_APP, "X-Session-Id": "a"}
        told = []
        sent: tuple[dict[str, Any], ...] = ({}, {}, {"temperature": 0.2})
        for more in sent:
            call = await harness.client.send(CHAT, asked("yes", **more), headers=headers)
            told.append(call.json["usage"].get("tandem"))
        assert told == [None, {"sampling": "regenerate"}, None]
        streamed = await harness.client.send(CHAT, asked("yes", stream=True), headers=headers)
        assert said(streamed).usage["tandem"] == {"sampling": "regenerate"}
        block = (await harness.client.send("/health")).json["sampling"]["regenerate"]
        assert (block["temperature"], block["counts"]) == (0.9, {"header": 0, "conversation": 2, "client_params": 1})
    drawn, as_sent, _ = [record.getMessage() for record in caplog.records if "[regenerate]" in record.getMessage()]
    assert "temperature=0.9 top_p=0.5 top_k=7" in drawn
    assert as_sent.endswith("by=conversation client")


@pytest.mark.spec("API-177")
async def test_what_was_refused_before_it_generated_is_no_earlier_answer(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    headers = {**CHAT_APP, "X-Session-Id": "a"}
    async with open_harness(conductor_config=tmp_path, queue_timeout=5, side_lane="off") as harness:
        long = asked("word " * 100)
        long["messages"][0]["content"] = fake(say="word " * 100, token_ms=100)

        async def sampled() -> list[str | None]:
            harness.client.start(CHAT, long, headers={"X-Tandem": "raw"})
            await trio.sleep(1)
            busy = await harness.client.send(CHAT, asked("yes"), headers=headers)
            assert busy.status == 429
            await trio.sleep(10)
            call = await harness.client.send(CHAT, asked("yes"), headers=headers)
            return [(call.json["usage"].get("tandem") or {}).get("sampling"), harness.outcomes[-1].finish_reason]

        assert await sampled() == [None, "stop"]
        assert await sampled() == ["regenerate", "stop"], "of the first time"


@pytest.mark.spec("API-054")
async def test_without_a_conductor_health_is_as_it_was(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        assert (await harness.client.send("/health")).json["sampling"] == {"thinking_default": "on", "card": {}}
