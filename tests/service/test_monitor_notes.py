"""Notes of the monitor in the prompt: they are given once, and stand where they stood (MON-034, NOTE-002)."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tandem.actors.store import Flush
from tandem.conductor.monitor import tier0
from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import RequestEvent, Task, View
from tandem.conductor.monitor.policy import shipped_body
from tandem.conductor.monitor.supervisor import Supervisor
from tandem.draining import drain
from tandem.engine.fake.warm import WarmFakeEngine
from tandem.engine.text.splicing import openings
from tests.conductor.monitor.calling import declare
from tests.conductor.monitor.test_argument_loop import attempt
from tests.service.harness import Harness, fake, open_harness
from tests.service.test_inside import follow, open_inside
from tests.service.test_plan import CHAT, SeenFake
from tests.service.test_plan_promise import Talk

TOOLS = [declare("write", "path", "content")]
USER = {"role": "user", "content": fake(say="ok", turns=[{"say": "done"}] * 6)}
STOPPED = [USER, *attempt('{"path": "a", "content": "' + "very " * 1_000)]
GRID = 16


async def counts(harness: Harness, messages: list[dict[str, Any]]) -> tuple[int, int]:
    """Prompt tokens that were not cached, and hidden ones."""
    headers = {"x-session-id": "s", "x-tandem-profile": "coding"}
    call = await harness.client.send("/v1/chat/completions", {"messages": messages, "tools": TOOLS}, headers=headers)
    assert call.status == 200, call.body
    usage = call.json["usage"]
    details = usage["prompt_tokens_details"]
    return usage["prompt_tokens"] - details["cached_tokens"], details.get("hidden_tokens", 0)


async def rows(harness: Harness) -> list[tuple[str | None, str]]:
    await harness.service.context.store.ask(Flush)
    call = await harness.client.send("/v1/conductor/events?kind=monitor&limit=100")
    found = [row for row in reversed(call.json["events"]) if row["task"] == "A1"]
    return [(row["action"], row["reason"]) for row in found]


@pytest.mark.spec("MON-034", "MON-115", "MON-133", "NOTE-002", "NOTE-009")
async def test_a_request_that_comes_again_gets_the_same_note_once(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    on = [*STOPPED, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "and now?"}]
    engine = WarmFakeEngine(grid=GRID, max_len=20_000)
    found: list[tuple[int, int]] = []
    for requests in ([STOPPED, STOPPED], [STOPPED, on]):  # a restart between
        async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
            found += [await counts(harness, each) for each in requests]
            given = [("PROMPT_TAIL_NOTE", "tool_arg_loop")] if requests[1] is STOPPED else []
            assert await rows(harness) == [*given, (None, "note.there")]
            await drain(harness.service.context)
    assert len({hidden for _, hidden in found[:3]}) == 1
    assert found[0][1] > 0
    assert [read < 3 * GRID for read, _ in found] == [False, True, True, True], "what was read stays where it was"


@pytest.mark.spec("MON-030", "MON-116", "RTR-023")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_stands_behind_a_question_inside_the_conversation_too(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    end = Action(kind="GIVE_UP", reason="enough", text="[Over.]")
    async with open_inside(tmp_path) as harness:
        before = await harness.client.send(CHAT, {**follow(), "stream": stream})
        monkeypatch.setattr(Supervisor, "request", lambda _: [end])
        call = await harness.client.send(CHAT, {**follow(), "stream": stream})
        monkeypatch.undo()
        assert (before.text, call.text) == ("done", "[Over.]")
        assert (await harness.client.send(CHAT, follow())).text == "done", "the slot was given back"
        assert [outcome.stop_detail for outcome in harness.outcomes][1] == "enough"


@pytest.mark.spec("MON-035", "MON-036")
async def test_a_budget_of_nothing_closes_the_block_as_the_template_does(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, body = SeenFake(), {"messages": [{"role": "user", "content": "Go on. @fake begin: inside"}]}
    headers = {"x-tandem-profile": "coding"}
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        call = await harness.client.send(CHAT, body, headers=headers)
        opened = engine.prompts[-1]
        monkeypatch.setattr(Supervisor, "request", lambda _: [Action(kind="SET_THINK_BUDGET", budget=0)])
        closed_call = await harness.client.send(CHAT, body, headers=headers)
        closed = engine.prompts[-1]
        off = {**body, "chat_template_kwargs": {"enable_thinking": False}}
        await harness.client.send(CHAT, off, headers={"x-tandem": "raw"})
    known = openings(engine.text)
    assert known is not None
    assert (opened.thinking, closed.thinking, engine.prompts[-1].thinking) == ("free", "off", "off")
    head = len(opened.ids) - len(known.open)
    assert closed.ids == (*opened.ids[:head], *known.closed)
    assert engine.prompts[-1].ids[-len(known.closed) :] == known.closed
    assert closed_call.json["usage"]["prompt_tokens"] == call.json["usage"]["prompt_tokens"]


def noting(event: RequestEvent, task: Task, view: View) -> Action | None:
    """A note for about every second request, the same for the same messages."""
    said = repr([(message["role"], message.get("content")) for message in event.messages])
    number = hashlib.sha256(said.encode()).digest()[0]
    return Action(kind="PROMPT_TAIL_NOTE", reason="due", text=f"Mind {number}.") if number % 2 else None


@pytest.mark.spec("MON-034", "MON-036", "MON-133", "MON-134", "NOTE-002", "NOTE-005", "NOTE-009", "NOTE-010", "API-248")
async def test_a_turn_resumes_as_far_as_without_the_notes(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that goes on, asks again, edits, compacts, and comes back after restarts."""
    monkeypatch.setattr(tier0, "_RULES", dict(tier0._RULES))
    tier0.register("noting", "SP4", {}, (), "Of a test.")(noting)
    policy = tmp_path / "policy.yaml"
    caps = {"acts_per_request": 4, "acts_per_session_hour": 1_000}
    tasks = [{"id": "X1", "rule": "noting", "mode": "act", "tier": 0}]
    policy.write_text(json.dumps({**shipped_body(), "caps": caps, "tasks": tasks}))
    counts: dict[str, list[tuple[int, int]]] = {}
    for mode in ("raw", "on"):
        engine = WarmFakeEngine(grid=GRID, max_len=60_000)
        headers = {"x-tandem-profile": "coding", "x-session-id": "one"}
        talk = NotedTalk(mode, random.Random(23), engine, tmp_path / mode, headers, [], policy=policy)
        await talk.run(14)
        counts[mode] = talk.counts
        assert (talk.hidden > 0) == (mode == "on")
    for (prompt, cached), (raw_prompt, raw_cached) in zip(counts["on"], counts["raw"], strict=True):
        assert prompt == raw_prompt
        assert cached > raw_cached - GRID


@dataclass
class NotedTalk(Talk):
    policy: Path = Path()

    @asynccontextmanager
    async def server(self) -> AsyncIterator[Harness]:
        async with open_harness(
            engine=self.engine, conductor_config=self.config, conductor_policy=self.policy
        ) as harness:
            yield harness
            await drain(harness.service.context)
