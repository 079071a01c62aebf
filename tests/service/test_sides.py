"""Clients' own side requests beside turns: who goes first, and how long they may wait (HTTP API section 22)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tandem.http.entry import SHORT_SIDE
from tests.service.harness import Call, Harness, open_harness
from tests.service.test_waiting import CHAT, hold, queued

OPENCODE = "You are a title generator. You output ONLY a thread title. Nothing else.\n\n<task>\nGenerate a brief title."
HERMES = (
    "You name chat sessions. Given the user's opening message, write a title that lets them find this conversation "
    "again in a list."
)
OPEN_WEBUI = "### Task:\nGenerate a concise title, 3-5 words, summarizing the chat history."


def title(words: int = 0, opening: str = OPENCODE, **more: Any) -> dict[str, Any]:
    """A title request as opencode and Hermes send it; one that opens `### Task:` is a single user message."""
    if opening.startswith("#"):
        return {"messages": [{"role": "user", "content": opening}], **more}
    quoted = "word " * words + "Why is the sky blue?"
    messages = [{"role": "system", "content": opening}, {"role": "user", "content": quoted}]
    return {"messages": messages, **more}


async def asked(harness: Harness, body: dict[str, Any]) -> Call:
    call = harness.client.start(CHAT, body)
    await trio.testing.wait_all_tasks_blocked()
    return call


async def order(harness: Harness, *calls: Call) -> list[str]:
    """The ids of requests in the order in which they ended."""
    for call in calls:
        await call.finished.wait()
    await harness.look()
    ids = {call.headers["x-request-id"] for call in calls}
    return [outcome.request_id for outcome in harness.outcomes if outcome.request_id in ids]


def ids(*calls: Call) -> list[str]:
    return [call.headers["x-request-id"] for call in calls]


@pytest.mark.spec("SCH-011", "SCH-012", "API-198", "SES-013")
@pytest.mark.parametrize("opening", [OPENCODE, HERMES, OPEN_WEBUI])
async def test_a_title_overtakes_the_turns_that_wait(autojump_clock: trio.testing.MockClock, opening: str) -> None:
    async with open_harness() as harness:
        await hold(harness, 30)
        turns = [await queued(harness, name) for name in "ab"]
        first = await asked(harness, title(opening=opening))
        assert await order(harness, *turns, first) == ids(first, *turns)
        assert harness.outcomes[1].queue_ms == pytest.approx(30_000, abs=1500)


@pytest.mark.spec("SCH-014", "API-142")
async def test_a_shown_position_rises_only_when_a_title_overtakes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        await hold(harness, 45)
        first, second = [await queued(harness, name, stream=True) for name in "ab"]
        await trio.sleep(15)
        await asked(harness, title())
        await second.finished.wait()
        told = [[text.split(",")[1] for _, text in call.comments] for call in (first, second)]
        assert told == [[f" position {at}" for at in positions] for positions in ([1, 2, 2, 2], [2, 3, 3, 3])]


@pytest.mark.spec("SCH-013", "SES-013")
async def test_a_long_title_waits_for_every_turn(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        await hold(harness, 30)
        long = await asked(harness, title(SHORT_SIDE))
        turns = [await queued(harness, name) for name in "ab"]
        assert await order(harness, *turns, long) == ids(*turns, long)


@pytest.mark.spec("SCH-011")
async def test_what_only_looks_like_a_title_is_a_turn(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        await hold(harness, 30)
        turn = await queued(harness, "a")
        with_tools = title(tools=[{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}])
        others = [await asked(harness, body) for body in (with_tools, title(opening="Say: " + OPENCODE))]
        assert await order(harness, *others, turn) == ids(turn, *others)


@pytest.mark.spec("API-198", "SCH-018", "SES-013")
@pytest.mark.parametrize("words", [0, SHORT_SIDE])
async def test_a_title_is_not_refused_for_its_wait(autojump_clock: trio.testing.MockClock, words: int) -> None:
    async with open_harness() as harness:
        await hold(harness, 1000)
        refused = harness.client.start(CHAT, {"messages": [{"role": "user", "content": "hi"}]})
        call = await harness.client.send(CHAT, title(words))
        assert (call.status, refused.status) == (200, 429)
        assert call.json["timings"]["queue_ms"] == pytest.approx(1_000_000, abs=2000)


@pytest.mark.spec("API-198")
async def test_a_title_waits_no_longer_than_a_generation_may_take(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(request_timeout=300) as harness:
        await hold(harness, 280)
        await hold_next(harness)
        start = trio.current_time()
        refused = await harness.client.send(CHAT, title(SHORT_SIDE))
        assert trio.current_time() - start == pytest.approx(300)
        assert (refused.status, refused.json["error"]["code"]) == (429, "queue_timeout")


async def hold_next(harness: Harness) -> None:
    """A turn that runs as long as it may, from when the present one has ended."""
    script = '@fake {"loop": true, "say": "la ", "token_ms": 1000}'
    messages = [{"role": "user", "content": script}]
    await asked(harness, {"messages": messages, "stream": True, "max_tokens": 4000})
