"""State lines of whole requests: what a client sees of them, and that its next request is as if there had been none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tandem.actors.kit import Inline
from tandem.conductor.lines.frame import framed
from tandem.http.lining import cleaned
from tests.http.openai.returning import CLIENTS
from tests.service.harness import Call, Harness, chat, fake, open_harness
from tests.service.said import said
from tests.service.test_plan import CHAT, SeenFake, decisions, profile, put
from tests.service.test_waiting import LONG, hold

CODE_ROUTE = "Code, xhigh effort"
OPENCODE = {"x-tandem-client": "opencode"}
WEBUI = {"x-tandem-client": "open-webui"}


async def with_ui(harness: Harness, name: str, **ui: Any) -> None:
    """Give a shipped profile other lines."""
    document = await profile(harness, name)
    await put(harness, f"profiles/{name}", {**document, "ui": {**document["ui"], **ui}})


def lines_of(call: Call) -> list[str]:
    """The texts of a stream's lines in their order."""
    deltas = [choice["delta"] for chunk in call.chunks for choice in chunk["choices"]]
    texts = [text for delta in deltas for text in (delta.get("content"), delta.get("reasoning_content")) if text]
    return [text.strip().removeprefix("\u203a ") for text in texts if text.startswith("\n\u203a ")]


def events_of(call: Call) -> list[tuple[str, bool]]:
    data = [chunk["event"]["data"] for chunk in call.chunks if "event" in chunk]
    return [(each["description"], each["done"]) for each in data]


async def two_turns(tmp_path: Path, client: str, **ui: Any) -> tuple[list[Any], list[Any], list[dict[str, Any]]]:
    """Prompts, usage and rows of a conversation whose client sends back what it makes of its stream."""
    engine, headers = SeenFake(), {"x-tandem-client": client, "x-tandem-profile": "coding"}
    script = {"say": "<think>why \nnot</think>Because.", "choose": {"code_edit": 0.9}}
    body = chat(f"Fix the parser. {fake(**script)}", stream=True, conversation_id="one")
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        await with_ui(harness, "coding", **ui)
        first = await harness.client.send(CHAT, body, headers=headers)
        back = CLIENTS[client](first.chunks)
        again = {"role": "user", "content": f"And now? {fake(**script)}"}
        messages = [*body["messages"], back, again]
        second = await harness.client.send(CHAT, {**body, "messages": messages}, headers=headers)
        raw = await harness.client.send(CHAT, {**body, "messages": messages}, headers={**headers, "x-tandem": "raw"})
        rows = await decisions(harness)
    prompts = [(prompt.ids, prompt.spans) for prompt in engine.prompts if prompt.client_tokens]
    return prompts, [said(call).usage for call in (first, second, raw)], rows


@pytest.mark.spec("STA-006", "STA-007", "STA-009", "STA-011", "STA-012", "API-147", "API-153")
async def test_the_model_never_reads_a_line(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    for client, channels in (("opencode", ("content", "inline")), ("hermes", ("content",))):
        silent, usage, rows = await two_turns(tmp_path / client / "off", client, states="off")
        assert "states" not in rows[0]["extra"]
        for channel in channels:
            folder = tmp_path / client / channel
            told, told_usage, rows = await two_turns(folder, client, states="on", states_channel=channel)
            assert told == silent, (client, channel)
            assert told_usage == usage
            first, second = rows
            assert first["extra"]["states"][0] == {"kind": "route", "text": CODE_ROUTE, "ms": 0, "summary": ""}
            assert second["extra"]["states"][0]["kind"] == "route"
            assert "states_stripped" not in first["extra"]
            assert second["extra"]["states_stripped"] > 20


@pytest.mark.spec("STA-001", "STA-002", "API-147")
async def test_who_gets_no_lines(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    script = {"say": "[1]", "choose": {"code_edit": 0.9}}
    title = "You are a title generator. You output ONLY a thread title. Nothing else."
    async with open_harness(conductor_config=tmp_path) as harness:

        async def content(headers: Mapping[str, str] | None = None, **more: Any) -> str:
            call = await harness.client.send(CHAT, chat(script, **more), headers={**OPENCODE, **(headers or {})})
            return call.text

        assert await content() == framed(CODE_ROUTE) + framed("using coding-answer") + "[1]"
        assert await content({"x-tandem": "shadow"}) == "[1]"
        assert await content({"x-tandem": "raw"}) == "[1]"
        assert await content({"x-tandem-profile": "general"}) == "[1]"  # whose states are off
        assert await content(n=2) == "[1]"
        assert "\u203a" not in await content(response_format={"type": "json_object"})
        assert "\u203a" not in await content(structured_outputs={"choice": ["[1]", "[2]"]})
        side = [{"role": "system", "content": title}, {"role": "user", "content": "Generate a title: hi"}]
        assert "\u203a" not in await content(messages=side)
        await with_ui(harness, "coding", kinds={"route": "off", "packages": "off"})
        assert await content() == "[1]"
        assert all("states" not in row["extra"] for row in (await decisions(harness))[1:])


@pytest.mark.spec("STA-023", "STA-025", "STA-028", "SCH-027", "API-144")
async def test_a_wait_is_told_from_its_third_second_on(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """A queued stream has its lines beside the comments."""
    async with open_harness(conductor_config=tmp_path) as harness:
        await hold(harness, 75)
        ahead = harness.client.start(CHAT, chat({"say": "x"}), headers={"x-tandem": "raw"})
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        call = harness.client.start(CHAT, chat({"say": "so"}, stream=True), headers=OPENCODE)
        await trio.sleep(3)
        quiet = harness.client.start(CHAT, chat({"say": "so"}, stream=True), headers={"x-tandem": "raw"})
        await trio.sleep(17.5)
        ahead.leave()
        await call.finished.wait()
        await quiet.finished.wait()
        told = [
            (round(event.at - start), event.data["choices"][0]["delta"].get("content", "").strip("\n\u203a "))
            for event in call.events
            if event.data and event.data["choices"]
        ]
        assert [each for each in told if each[1].startswith("in line")] == [
            (2, "in line at 2: another request is running"),
            (21, "in line at 1: another request is running"),
        ]
        assert call.opened_at == pytest.approx(start + 2)
        assert quiet.opened_at == pytest.approx(start + 13)
        assert [round(at - start) for at, _ in call.comments] == [10, 20, 30, 40, 50, 60, 70]
        assert [round(at - start) for at, _ in quiet.comments][:3] == [13, 23, 33]
        assert call.text.endswith("so")


@pytest.mark.spec("STA-026", "STA-022", "API-145")
async def test_a_refusal_after_the_first_line(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path, request_timeout=30) as harness:
        await hold(harness, 99)  # until its time is over; then the next one is before these two
        harness.client.start(CHAT, chat(LONG, max_tokens=99), headers={"x-tandem": "raw"})
        await trio.testing.wait_all_tasks_blocked()
        calls = [
            harness.client.start(CHAT, chat({"say": "so", "choose": {"chat": 0.9}}, stream=True), headers=headers)
            for headers in (OPENCODE, WEBUI)
        ]
        for call in calls:
            await call.finished.wait()
        *_, last = calls[0].chunks
        assert (last["choices"][0]["finish_reason"], last["error"]["code"]) == ("error", "queue_timeout")
        assert last["error"]["status"] == 429
        assert calls[0].is_done
        *_, concluded, error = calls[1].chunks
        assert concluded["event"]["data"] == {"description": "waited 30 s", "done": True}
        assert error["error"]["code"] == "queue_timeout"
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(outcome.status for outcome in harness.outcomes)[-2:] == [429, 429]


@pytest.mark.spec("STA-019", "STA-020", "STA-021", "API-152")
async def test_open_webui_gets_events_until_the_first_token(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    script = {"say": "<think>why</think>so", "choose": {"chat": 0.9}}
    async with open_harness(conductor_config=tmp_path) as harness:
        await hold(harness, 5)
        call = await harness.client.send(CHAT, chat(script, stream=True), headers=WEBUI)
        told = events_of(call)
        assert told[0] == ("Chat, low effort", False)
        assert ("in line at 1: another request is running", False) in told
        assert told[-1][0].startswith("waited 4 s, read ")
        assert [done for _, done in told].count(True) == 1
        assert lines_of(call) == []
        assert said(call).reasoning == "why"
        order = ["event" if "event" in chunk else "delta" for chunk in call.chunks]
        assert order.index("delta") == 0
        assert "event" not in order[order.index("event") + len(told) :]
        body = await harness.client.send(CHAT, chat(script), headers=WEBUI)
        assert body.text == framed("Chat, low effort") + "so"
    async with open_harness(conductor_config=tmp_path, status_clients=()) as harness:
        call = await harness.client.send(CHAT, chat(script, stream=True), headers=WEBUI)
        assert (events_of(call), lines_of(call)) == ([], ["Chat, low effort"])


@pytest.mark.spec("STA-023", "STA-024")
async def test_a_long_prompt_and_a_long_thought(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside: list[Callable[..., Any]] = []
    run = Inline.run

    async def noted(self: Inline, purpose: str, work: Callable[..., Any], *args: object) -> Any:
        beside.append(work)
        return await run(self, purpose, work, *args)

    monkeypatch.setattr(Inline, "run", noted)
    thought = "<think>" + "word " * 300 + "</think>so"
    script = {"say": thought, "choose": {"code_edit": 0.9}, "token_ms": 1000, "prefill_ms_per_token": 10}
    long, tools = "word " * 6_000, [{"type": "function", "function": {"name": "bash"}}]
    async with open_harness(conductor_config=tmp_path) as harness:
        call = await harness.client.send(
            CHAT, chat(f"{long} {fake(**script)}", stream=True, tools=tools), headers=OPENCODE
        )
        told = lines_of(call)
        assert cleaned in beside, "a long history is no work for the event loop (SCH-113)"
        assert told[0] == CODE_ROUTE
        reading = [line for line in told if line.startswith("reading the prompt")]
        assert len(reading) >= 2
        thinking = [line for line in told if line.startswith("thinking for")]
        assert [line.split(",")[0][:20] for line in thinking] == ["thinking for 2 min 0", "thinking for 4 min 1"]
        await with_ui(harness, "coding", progress={"mode": "off"})
        call = await harness.client.send(
            CHAT, chat(f"{long} b {fake(**script)}", stream=True, tools=tools), headers=OPENCODE
        )
        assert lines_of(call)[0] == CODE_ROUTE
        assert not any(line.startswith(("reading", "thinking")) for line in lines_of(call))
