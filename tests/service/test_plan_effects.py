"""What a plan changes, one effect at a time, as the engine and the client see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tandem.conductor.lines.frame import without_lines
from tandem.engine.text.prompt import Prompt
from tests.service.harness import chat, open_harness
from tests.service.said import said
from tests.service.test_plan import CHAT, CODE, TALK, SeenFake, decisions, profile, put

RUN: dict[str, Any] = {"name": "run", "parameters": {"type": "object"}}
THOUGHT = {"say": "<think>why</think>so", "choose": {"chat": 0.9}}


def directory_tool(path: str) -> dict[str, Any]:
    about = f"Runs a command. The current working directory is: {path}"
    return {"type": "function", "function": {**RUN, "description": about}}


def notes(engine: SeenFake, prompt: Prompt) -> list[str]:
    """The hidden texts of a prompt."""
    runs = (prompt.ids[span.start : span.end] for span in prompt.spans if span.kind == "note")
    return [b"".join(map(engine.text.piece, ids)).decode() for ids in runs]


@pytest.mark.spec("CFG-006", "PRF-005")
async def test_a_saved_profile_holds_for_the_next_request(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path) as harness:
        long = harness.client.start(CHAT, chat({"say": "word " * 50, "token_ms": 100}, stream=True))
        await trio.sleep(2)
        await put(harness, "profiles/general", {**await profile(harness, "general"), "mode": "shadow"})
        call = await harness.client.send(CHAT, chat(CODE), headers={"x-tandem": "on"})
        await long.finished.wait()
        assert (long.headers["x-tandem"], call.headers["x-tandem"]) == ("on", "shadow")
        broken = await harness.client.send(
            "/v1/conductor/profiles/general", {"document": {}, "note": "a"}, method="PUT"
        )
        assert broken.status == 400
        assert (await harness.client.send(CHAT, chat(CODE))).headers["x-tandem"] == "shadow"
        assert [row["mode"] for row in await decisions(harness)] == ["on", "shadow", "shadow"]


@pytest.mark.spec("PRF-007", "PRF-013", "PRF-014", "PRF-015")
async def test_the_tools_profile_reads_what_raw_reads(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = SeenFake()
    body = chat(CODE, tools=[directory_tool("/work")])
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        call = await harness.client.send(CHAT, body)
        await harness.client.send(CHAT, body, headers={"x-tandem": "raw"})
        (row,) = await decisions(harness)
    assert (call.headers["x-tandem"], call.headers["x-tandem-profile"]) == ("on", "tools")
    planned, raw = engine.prompts  # and no question
    assert planned.ids == raw.ids
    assert (row["extra"]["profile_source"], row["class"]) == ("tools", None)
    assert "moved_tool" in row["extra"]["prompt"]["dropped"]


@pytest.mark.spec("FIT-001", "NOTE-003")
async def test_a_cd_moves_no_tool(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = SeenFake()
    headers = {"x-tandem-profile": "chat"}
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        body = chat(TALK, tools=[directory_tool("/work")], conversation_id="one")
        await harness.client.send(CHAT, body, headers=headers)
        body["messages"] += [{"role": "assistant", "content": "hello"}, *chat(TALK)["messages"]]
        body["tools"] = [directory_tool("/work/deeper")]
        await harness.client.send(CHAT, body, headers=headers)
        rows = await decisions(harness)
    first, second = [prompt for prompt in engine.prompts if prompt.client_tokens]
    end = first.insertion
    assert second.ids[:end] == first.ids[:end]
    assert b"/work/deeper" in b"".join(map(engine.text.piece, second.ids))
    assert "/work" not in json.dumps(rows)


@pytest.mark.spec("FIT-002", "FIT-003")
async def test_who_asks_is_told(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = SeenFake()
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        await harness.client.send(CHAT, chat("Who are you?"))
        await harness.client.send(CHAT, chat("What is the time?"))
    asked, other = [notes(engine, prompt) for prompt in engine.prompts if prompt.client_tokens]
    assert any("the model fake, running in TandemLLM" in note for note in asked)
    assert not any("TandemLLM" in note for note in other)


@pytest.mark.spec("PRF-021", "PRF-022", "API-073")
@pytest.mark.parametrize(
    ("client", "apart", "settings"),
    [
        ("opencode", True, {}),
        ("hermes", False, {}),
        ("anon", True, {}),
        ("opencode", False, {"client_reasoning": (("opencode", "tags"),)}),
        ("curl", False, {"client_reasoning": ()}),
    ],
)
async def test_the_reasoning_goes_where_a_kind_of_client_reads_it(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, client: str, apart: bool, settings: dict[str, Any]
) -> None:
    async with open_harness(conductor_config=tmp_path, **settings) as harness:
        call = await harness.client.send(CHAT, chat(THOUGHT), headers={"x-tandem-client": client})
        answer = said(call)
        told = without_lines(answer.content or "")
        assert (told, answer.reasoning) == (("so", "why") if apart else ("<think>why</think>so", None))


@pytest.mark.spec("EFF-001", "EFF-003", "EFF-013", "EFF-012", "API-100")
@pytest.mark.parametrize(
    ("more", "source", "budget"),
    [
        ({}, "class", 1024),
        ({"thinking_budget": 5}, "client", 5),
        *[
            (off, None, None)
            for off in (
                {"reasoning_effort": "none"},
                {"enable_thinking": False},
                {"reasoning": {"enabled": False}},
                {"thinking": {"type": "disabled"}},
            )
        ],
    ],
)
async def test_reasoning_ends_at_the_cap(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, more: dict[str, Any], source: str | None, budget: int | None
) -> None:
    words = [f"{chr(97 + at % 26)}{chr(97 + at // 26 % 26)}a " for at in range(2_000)]  # no loop, which would be closed
    think = {"say": f"<think>{''.join(words)}</think>so", "choose": {"chat": 0.9}}
    engine = SeenFake()
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        call = await harness.client.send(CHAT, chat(think, **more))
        (row,) = await decisions(harness)
    usage = call.json["usage"]
    asks_for_thinking = any("Reasoning effort" in note for note in notes(engine, engine.prompts[-1]))
    assert asks_for_thinking == (budget is not None)
    if budget is None:
        assert row["detail"]["thinking"] == "off_client"
        assert row["extra"]["client_thinking"]["field"] in (*more, "reasoning.enabled", "thinking.type")
        assert engine.prompts[-1].thinking == "off"
        return
    assert (row["detail"]["budget_source"], row["detail"]["budget"]) == (source, budget)
    assert usage["completion_tokens_details"]["reasoning_tokens"] == budget
    message = call.json["choices"][0]["message"]
    assert message["content"] == "so"
    assert message["reasoning_content"].strip().endswith("a")  # the closing phrase is the model's alone


@pytest.mark.spec("SMP-001", "SMP-002", "SMP-004", "SMP-009", "OBS-043")
async def test_an_answer_that_is_asked_for_again_is_drawn(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    headers = {"x-tandem-client": "chat-app", "x-session-id": "one"}
    body = chat(CODE, no_repeat_ngram_size=3)
    async with open_harness(conductor_config=tmp_path) as harness:
        await harness.client.send(CHAT, body, headers=headers)
        await harness.client.send(CHAT, body, headers=headers)
        await harness.client.send(CHAT, body, headers={**headers, "x-tandem-regenerate": "0"})
        first, again, _ = await decisions(harness)
        health = await harness.client.send("/health")
    assert [outcome.sampling for outcome in harness.outcomes] == [None, "regenerate", None]
    assert (first["class"], again["class"]) == ("code_edit", "code_edit")
    assert again["detail"]["notes"][0]["hash"] == first["detail"]["notes"][0]["hash"]
    assert first["extra"]["penalty_dropped"] == {"no_repeat_ngram_size": 3}
    lines = [message for message in caplog.messages if message.startswith("[penalty]")]
    assert [line.split(" ", 2)[2] for line in lines] == ["no_repeat_ngram_size dropped"] * 3
    assert health.json["sampling"]["regenerate"]["counts"]["conversation"] == 1


@pytest.mark.spec("RTR-010", "SCH-053", "SCH-023")
async def test_a_question_goes_to_an_idle_side_slot(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = SeenFake(slots=2)
    async with open_harness(engine=engine, conductor_config=tmp_path, parallel=2) as harness:
        body = chat(TALK, conversation_id="one")
        await harness.client.send(CHAT, body)
        body["messages"] += [{"role": "assistant", "content": "hello"}, *chat(TALK)["messages"]]
        await harness.client.send(CHAT, body)
        verbs = [call.verb for call in engine.slots[1].calls]
    assert "ask" in verbs
    assert "borrow" not in [call.verb for call in engine.calls][-10:]


@pytest.mark.spec("NOTE-004")
async def test_a_request_with_a_note_is_never_answered_from_memory(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path, response_cache=True) as harness:
        for headers in ({}, {}, {"x-tandem": "raw"}, {"x-tandem": "raw"}):
            await harness.client.send(CHAT, chat(CODE, temperature=0), headers=headers)
    assert [outcome.cache_source == "response" for outcome in harness.outcomes] == [False, False, False, True]
