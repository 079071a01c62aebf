"""The service's own work in a whole service: it runs while nobody asks, and a request waits for one chunk at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from tandem.actors.host import InlineHost
from tandem.actors.kit import Reply
from tandem.actors.preparer import Grew, TakeSummary
from tandem.actors.reader import Ended, TurnEnded
from tandem.draining import drain
from tandem.engine.fake.warm import WarmFakeEngine
from tandem.engine.verbs import SamplingRules
from tests.service.harness import Harness, chat, open_harness

CHAT = "/v1/chat/completions"
GRID = 64
SUMMARY = "a summary of it all"
SLOW = '@fake {"say": "a summary of it all", "token_ms": 1000, "prefill_ms_per_token": 10}'


def warm() -> WarmFakeEngine:
    return WarmFakeEngine(grid=GRID, guest_max=0)


def asks(harness: Harness) -> Any:
    """The prompt of the request that would ask for a summary of what is resident."""
    text = harness.engine.text
    held = harness.engine.resident()[0]
    return text.read([*held, *text.encode(f"\nplease {SLOW}")])


async def grow(harness: Harness) -> Any:
    """A conversation has grown: the prompt of its summary, which is to be prepared."""
    prompt = asks(harness)
    rules = SamplingRules(end_ids=frozenset(harness.engine.text.end_ids))
    preparer = harness.service.own.preparer
    assert preparer is not None
    await preparer.ref.tell(Grew(conversation="c", prompt=prompt, rules=rules, limit=100))
    return prompt


async def summary(harness: Harness, prompt: Any) -> str | None:
    preparer = harness.service.own.preparer
    assert preparer is not None
    ids: tuple[int, ...] | None = await preparer.ref.ask(lambda reply: TakeSummary(prompt.keys, reply))
    return None if ids is None else b"".join(map(harness.engine.text.piece, ids)).decode()


@pytest.mark.spec("SCH-083", "SCH-080")
async def test_a_summary_is_written_while_nobody_asks(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(engine=warm(), summary_ahead=True) as harness:
        await harness.client.send(CHAT, chat("word " * 100))
        prompt = await grow(harness)
        await trio.sleep(3)
        sight = await harness.look()
        assert sight.windows is not None
        assert (sight.windows.open_for, sight.waiting) == ("summary", 0)
        assert await summary(harness, prompt) is None
        await trio.sleep(60)
        assert await summary(harness, prompt) == SUMMARY
        sight = await harness.look()
        assert sight.windows is not None
        assert sight.windows.open_for is None
        assert 5 < sight.windows.seconds["summary"] < 10
        assert sight.served == 1


@pytest.mark.spec("SCH-081", "SCH-091", "SCH-037")
async def test_a_request_waits_for_one_chunk_and_the_summary_goes_on_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_harness(engine=warm(), summary_ahead=True, max_queue=1) as harness:
        first = chat("word " * 100)
        answer = (await harness.client.send(CHAT, first)).text
        prompt = await grow(harness)
        await trio.sleep(3.3)
        messages = [*first["messages"], {"role": "assistant", "content": answer}, {"role": "user", "content": "more"}]
        asked_at = trio.current_time()
        call = await harness.client.send(CHAT, first | {"messages": messages})
        assert call.status == 200, call.body
        waited = trio.current_time() - asked_at
        assert 0 < waited <= 1.0
        sight = await harness.look()
        assert (sight.served, sight.waiting) == (2, 0)
        assert harness.outcomes[-1].wait_own_ms == pytest.approx(1e3 * waited, abs=1)
        await trio.sleep(60)
        assert await summary(harness, prompt) is None, "the conversation has gone on"
        prompt = await grow(harness)
        await trio.sleep(60)
        assert await summary(harness, prompt) == SUMMARY


@pytest.mark.spec("SCH-081", "SCH-083")
async def test_after_requests_that_leave_the_conversation_it_goes_on_with_what_it_has(
    autojump_clock: trio.testing.MockClock,
) -> None:
    engine = WarmFakeEngine(grid=GRID)  # short prompts are guests
    async with open_harness(engine=engine, summary_ahead=True) as harness:
        await harness.client.send(CHAT, chat("word " * 100))
        prompt = await grow(harness)
        for _ in range(3):
            await trio.sleep(2.2)
            asked_at = trio.current_time()
            assert (await harness.client.send("/v1/completions", {"model": "m", "prompt": "hi"})).status == 200
            assert trio.current_time() - asked_at <= 1.0
        await trio.sleep(60)
        assert (await summary(harness, prompt) or "").endswith(SUMMARY)
        assert any(call.verb == "force" for call in engine.calls)


@pytest.mark.spec("SCH-094", "SCH-095")
async def test_a_drain_waits_for_its_chunk_alone(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(engine=warm(), summary_ahead=True) as harness:
        await harness.client.send(CHAT, chat("word " * 100))
        prompt = await grow(harness)
        await trio.sleep(3.3)
        begun = trio.current_time()
        await drain(harness.service.context)
        assert trio.current_time() - begun <= 1.0
        await trio.sleep(60)
        assert await summary(harness, prompt) is None
        assert harness.engine.state()["open_sequences"] == 0


class SlowReader:
    """Ten ids a second."""

    def __init__(self, engine: WarmFakeEngine) -> None:
        self.read_ids: dict[str, int] = {}
        self.parked = 0
        self._engine = engine

    def read(self, conversation: str, ids: Sequence[int]) -> int:
        self._engine._spend(1000)
        self.read_ids[conversation] = min(len(ids), self.read_ids.get(conversation, 0) + 10)
        return len(ids) - self.read_ids[conversation]

    def park(self) -> None:
        self.parked += 1


@pytest.mark.spec("SCH-082", "SCH-081", "SCH-060")
async def test_what_a_conversation_gained_is_read_while_nobody_asks(autojump_clock: trio.testing.MockClock) -> None:
    engine = warm()
    reader = SlowReader(engine)
    async with open_harness(
        engine=engine, host=InlineHost(engine), more={"reader": reader}, summary_ahead=True
    ) as harness:
        shadow = harness.service.own.reader
        assert shadow is not None
        await harness.client.send(CHAT, chat("word " * 100))
        reply = Reply[Ended]()
        await shadow.ref.tell(TurnEnded("c", tuple(range(55)), reply))
        prompt = await grow(harness)
        await trio.sleep(2.5)
        asked_at = trio.current_time()
        assert (await harness.client.send("/health")).json["status"] == "ok"
        assert trio.current_time() == asked_at
        await harness.client.send(CHAT, chat("word " * 100))
        assert trio.current_time() - asked_at == pytest.approx(0.5)
        assert reader.parked == 0
        assert await reply.wait() == "finished"
        await trio.sleep(60)
        assert (reader.read_ids, reader.parked) == ({"c": 55}, 1)
        assert await summary(harness, prompt) == SUMMARY, "the same request again leaves the same rows"


@pytest.mark.spec("SCH-083")
async def test_switched_off_there_is_nobody_and_with_nothing_to_do_nothing_differs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told = []
    for ahead in (False, True):
        engine = warm()
        async with open_harness(engine=engine, summary_ahead=ahead) as harness:
            assert bool(harness.service.own.actors) is ahead
            began = trio.current_time()
            call = await harness.client.send(CHAT, chat({"say": "a b c", "token_ms": 100}, stream=True))
            deltas = [[choice["delta"] for choice in chunk["choices"]] for chunk in call.chunks]
            told.append((deltas, [call.verb for call in engine.calls]))
            assert trio.current_time() - began == pytest.approx(0.4)
    assert told[0] == told[1]
