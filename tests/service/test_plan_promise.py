"""The one promise, on the whole service: the conductor never moves a token that a cache holds (NOTE-002, NOTE-010).

The same random client talks to a server raw, in shadow and on. The fake resumes at the last grid line before the place
where two prompts part, and hidden tokens move those lines: what is cached, as the client counts it, must be equal turn
by turn but for less than one chunk.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tandem.draining import drain
from tandem.engine.fake.warm import WarmFakeEngine
from tandem.engine.load import load_engine
from tandem.engine.tiny.kinds import make_tiny
from tests.service.harness import Harness, fake, open_harness
from tests.service.test_plan import decisions

CHAT = "/v1/chat/completions"
CLASSES = ("chat", "writing", "code_edit", "debug", "three_d", "design_ui")
TOOL = {"type": "function", "function": {"name": "run", "description": "Runs.", "parameters": {"type": "object"}}}
TITLE = [{"role": "user", "content": "### Task:\nGenerate a concise title of what was said."}]
SUMMARY = "You are a context summarization agent. You are given a conversation between a user and an agent."
GRID = 16
WORDS = "A summary of what was said, long enough to be known again by its beginning. " * 3
Counts = tuple[int, int]
"""Prompt tokens and those of them that were cached, as the client counts them."""


@dataclass
class Talk:
    """A client; `draw` decides the same whatever the mode is."""

    mode: str
    draw: random.Random
    engine: WarmFakeEngine
    config: Path
    headers: Mapping[str, str]
    tools: list[Any]
    history: list[dict[str, Any]] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)
    hidden: int = 0

    @asynccontextmanager
    async def server(self) -> AsyncIterator[Harness]:
        async with open_harness(engine=self.engine, conductor_config=self.config) as harness:
            yield harness
            await drain(harness.service.context)

    async def run(self, steps: int) -> None:
        left = steps
        while left:
            async with self.server() as harness:  # each round begins with a restart
                for _ in range(min(left, self.draw.randint(1, 5))):
                    await self.step(harness)
                    left -= 1

    async def step(self, harness: Harness) -> None:
        users = [at for at, message in enumerate(self.history) if message["role"] == "user"]
        kinds = ["user"] * 4 + ["side", *(["again", "edit", "compact", "drop"] if users else [])]
        kind = "tool" if self.history and self.history[-1].get("tool_calls") else self.draw.choice(kinds)
        match kind:
            case "side":
                await self.send(harness, TITLE, tools=[])
                return
            case "compact":
                said = [{"role": "system", "content": SUMMARY}, {"role": "user", "content": fake(say=WORDS)}]
                summary = await self.send(harness, said, tools=[])
                self.history = [{"role": "user", "content": f"{summary['content']}\n\n{self.said()}"}]
            case "drop":
                for message in self.history:
                    message.pop("reasoning_content", None)
                self.history.append({"role": "user", "content": self.said()})
            case "again":
                del self.history[users[-1] + 1 :]
            case "edit":
                del self.history[self.draw.choice(users) :]
                self.history.append({"role": "user", "content": self.said()})
            case "tool":
                call = self.history[-1]["tool_calls"][0]["id"]
                self.history.append({"role": "tool", "tool_call_id": call, "content": self.draw.choice(("ok", "no"))})
            case _:
                self.history.append({"role": "user", "content": self.said()})
        self.history.append(await self.send(harness, self.history, tools=self.tools))

    def said(self) -> str:
        """A user's message, with the class that the question about it finds."""
        call = (
            "<tool_call>\n<function=run>\n</function>\n</tool_call>" if self.tools and self.draw.random() < 0.5 else ""
        )
        choose = {self.draw.choice(CLASSES): self.draw.choice((0.95, 0.5))}
        words = self.draw.choice(("go on", "build a page", "who are you?", "write a letter " * 9))
        answer = f"<think>hm</think>{self.draw.choice(('done', 'a longer answer with words'))}"
        then = {"say": f"{answer} at last"}
        return f"{words} {fake(say=answer + call, choose=choose, turns=[then, then])}"

    async def send(self, harness: Harness, messages: list[dict[str, Any]], tools: list[Any]) -> dict[str, Any]:
        body = {"messages": messages, "max_tokens": 200, **({"tools": tools} if tools else {})}
        call = await harness.client.send(CHAT, body, headers={"x-tandem": self.mode, **self.headers})
        assert call.status == 200, call.body
        assert call.headers["x-tandem"] == self.mode
        usage = call.json["usage"]
        details = usage["prompt_tokens_details"]
        self.counts.append((usage["prompt_tokens"], details["cached_tokens"]))
        self.hidden += details.get("hidden_tokens", 0)
        message: dict[str, Any] = call.json["choices"][0]["message"]
        return {name: value for name, value in message.items() if value is not None}


@pytest.mark.spec("NOTE-002", "NOTE-005", "NOTE-009", "NOTE-010", "PRF-010", "SES-007", "SES-011", "SES-016", "API-248")
@pytest.mark.parametrize("seed", range(3))
async def test_a_turn_resumes_as_far_as_without_a_conductor(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, seed: int
) -> None:
    counts: dict[str, list[Counts]] = {}
    for mode in ("raw", "shadow", "on"):
        draw = random.Random(seed)
        headers = {"x-tandem-profile": draw.choice(("chat", "coding", "general"))}
        headers |= draw.choice(({}, {"x-session-id": "one"}))
        talk = Talk(
            mode, draw, WarmFakeEngine(grid=GRID, max_len=60_000), tmp_path / mode, headers, draw.choice(([], [TOOL]))
        )
        await talk.run(14)
        counts[mode] = talk.counts
        assert (talk.hidden > 0) == (mode == "on")
    assert counts["shadow"] == counts["raw"]
    for (prompt, cached), (raw_prompt, raw_cached) in zip(counts["on"], counts["raw"], strict=True):
        assert prompt == raw_prompt
        assert cached > raw_cached - GRID


@pytest.mark.spec("NOTE-002", "RTR-010", "SCH-043")
async def test_a_real_model_resumes_behind_a_question_and_a_note(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """A question is lent the engine and gives it back: the turn behind it reads no more than a raw one would."""
    checkpoint = make_tiny("qwen3_5", tmp_path / "tiny")
    cached: dict[str, list[int]] = {}
    rows: list[dict[str, Any]] = []
    for mode in ("raw", "on"):
        engine: Any = load_engine(checkpoint, cpu_weights="fp32", max_len=2_048, grid=32)
        engine.take_elapsed = lambda: 0.0  # under the mock clock it takes no time
        messages: list[dict[str, str]] = []
        cached[mode] = []
        async with open_harness(engine=engine, conductor_config=tmp_path / mode) as harness:
            for words in ("Tell me of the fox. " * 8, "And of the crow?", "Go on."):
                messages.append({"role": "user", "content": words})
                body = {"messages": messages, "max_tokens": 4, "chat_template_kwargs": {"enable_thinking": False}}
                call = await harness.client.send(CHAT, body, headers={"x-tandem": mode})
                assert call.status == 200, call.body
                cached[mode].append(call.json["usage"]["prompt_tokens_details"]["cached_tokens"])
                messages.append({"role": "assistant", "content": call.json["choices"][0]["message"]["content"]})
            rows = await decisions(harness)
    assert len(rows) == 3
    assert all(stage.get("error") is None for row in rows for stage in row["detail"]["stages"])
    assert cached["raw"][1] > 32
    assert all(on > raw - 32 for on, raw in zip(cached["on"], cached["raw"], strict=True)), cached


@pytest.mark.spec("SES-007", "NOTE-009")
async def test_a_process_that_is_killed_loses_no_note(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """The caches outlive it here, so that the next turn's share of them tells whether its prompt has moved."""
    said = [{"role": "user", "content": f"build a page {fake(say='done ' * 30, choose={'design_ui': 0.95})}"}]
    engine = WarmFakeEngine(grid=GRID, max_len=60_000)
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        call = await harness.client.send(CHAT, {"messages": said})
        await trio.sleep(1.5)  # and then it is left without a drain
    said += [call.json["choices"][0]["message"], {"role": "user", "content": f"go on {fake(say='so')}"}]
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        after = (await harness.client.send(CHAT, {"messages": said})).json["usage"]
        (row,) = await decisions(harness)
    assert call.json["usage"]["prompt_tokens_details"]["hidden_tokens"] > 0
    assert row["detail"]["notes"][0]["kind"] == "replayed"
    assert after["prompt_tokens_details"]["cached_tokens"] > call.json["usage"]["prompt_tokens"]
