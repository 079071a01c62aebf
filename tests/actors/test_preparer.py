"""The summary prepared ahead: written in windows, piece by piece, kept for the request to come, dropped in time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.host import InlineHost
from tandem.actors.kit import Actor, Inbox, Ref, open_mailbox, supervise
from tandem.actors.preparer import Changed, Grew, Preparer, PreparerMessage, TakeSummary
from tandem.actors.queue import QueueMessage, SlotFree
from tandem.actors.turns import Turns
from tandem.actors.windows import Done, NotAllowed, WantWindow, Window, WindowMessage
from tandem.engine.decoding.work import Round, perform
from tandem.engine.fake import FakePrompt
from tandem.engine.fake.warm import WarmFakeEngine
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Accepted, SamplingRules

GRID = 64
SUMMARY = "one two three four five six"
SLOW = '@fake {"say": "one two three four five six", "block": 1, "token_ms": 1000, "prefill_ms_per_token": 100}'


class Desk:
    """A preparer over an engine that holds a conversation; the test is the broker."""

    def __init__(self) -> None:
        windows: Ref[WindowMessage]
        self.queue: Ref[QueueMessage]
        self._queue: Inbox[QueueMessage]
        self.engine = WarmFakeEngine(grid=GRID, guest_max=0)
        self.rules = SamplingRules(end_ids=frozenset(self.engine.text.end_ids))
        self.turns = Turns(quantum_s=0.05)
        windows, self._windows = open_mailbox("windows", 100)
        self.queue, self._queue = open_mailbox("queue", 100)
        self.preparer = Preparer(
            engine=self.engine, host=InlineHost(self.engine), turns=self.turns.ref, windows=windows
        )
        self.off: list[str] = []

    def hold(self, text: str = "word " * 40) -> list[int]:
        """A request has run: the ids of the conversation as its next prompt begins."""
        prompt = self.engine.text.read(text)
        seq = self.engine.open(prompt)
        while self.engine.prefill(seq, len(prompt.ids)).done < len(prompt.ids):
            pass
        ids = list(prompt.ids)
        while ids[-1] not in self.engine.text.end_ids:
            accepted = perform(self.engine, seq, Round(50), self.rules)
            assert isinstance(accepted, Accepted)
            ids += accepted.ids
        self.engine.close(seq)
        self.engine.take_elapsed()
        return ids

    def asks(self, held: list[int], words: int = 3, script: str = SLOW) -> FakePrompt:
        """The request for a summary that would come."""
        return self.engine.text.read([*held, *self.engine.text.encode("please " * words + script)])

    async def tell(self, *messages: PreparerMessage) -> None:
        for message in messages:
            await self.preparer.ref.tell(message)
        await wait_all_tasks_blocked()

    async def grew(self, prompt: Prompt, conversation: str = "c1", limit: int = 100) -> None:
        await self.tell(Grew(conversation=conversation, prompt=prompt, rules=self.rules, limit=limit))

    def said(self) -> list[Any]:
        said: list[Any] = []
        box: Inbox[WindowMessage] = self._windows
        while (message := box.receive_nowait()) is not None:
            said.append(message)
        return said

    async def window(self, seconds: float = 1e4) -> float:
        """The broker opens one and closes it after `seconds`: how long it was held."""
        [wanted] = self.said()
        assert isinstance(wanted, WantWindow)
        window, begun = Window(0, self.queue), trio.current_time()
        wanted.to.offer(window)
        with trio.move_on_after(seconds):
            message = await self._windows.receive()
        if trio.current_time() - begun >= seconds:
            window.yield_now.set()
            message = await self._windows.receive()
        assert message == Done("summary")
        await wait_all_tasks_blocked()
        assert self.engine.state()["open_sequences"] == 0
        assert self.turns._share.holder is None
        return trio.current_time() - begun

    async def take(self, prompt: Prompt) -> str | None:
        ids: tuple[int, ...] | None = await self.preparer.ref.ask(lambda reply: TakeSummary(prompt.keys, reply))
        return None if ids is None else b"".join(map(self.engine.text.piece, ids)).decode()


@asynccontextmanager
async def open_desk() -> AsyncIterator[Desk]:
    async with trio.open_nursery() as nursery:
        desk = Desk()
        actors: tuple[Actor[Any], ...] = (desk.turns, desk.preparer)
        for actor in actors:
            await nursery.start(partial(supervise, actor, lambda name, defect: desk.off.append(name)))
        yield desk
        nursery.cancel_scope.cancel()


@pytest.mark.spec("SCH-083")
async def test_a_summary_is_there_for_the_request_that_asks_for_it_once(autojump_clock: MockClock) -> None:
    async with open_desk() as desk:
        prompt = desk.asks(desk.hold())
        assert desk.said() == []
        await desk.grew(prompt)
        assert await desk.take(prompt) is None
        await desk.window()
        assert desk.said() == [], "it wants no window any more"
        assert await desk.take(desk.asks([1, 2])) is None
        await desk.grew(prompt)
        assert desk.said() == [], "the same one stays"
        assert await desk.take(prompt) == SUMMARY
        assert await desk.take(prompt) is None


@pytest.mark.spec("SCH-081", "SCH-083")
@pytest.mark.parametrize("seconds", [0.5, 2.5, 4.0, 7.5])
async def test_it_yields_at_its_next_chunk_and_goes_on_with_what_it_has(
    autojump_clock: MockClock, seconds: float
) -> None:
    async with open_desk() as desk:
        prompt = desk.asks(desk.hold(), 20)
        await desk.grew(prompt)
        held = await desk.window(seconds)
        assert seconds <= held <= seconds + GRID * 0.1
        text = desk.preparer._job
        assert text is not None
        so_far = text.text.ids
        rows = len(desk.engine.resident()[0])
        desk.engine.calls.clear()
        before = desk.engine.state()["resumed_tokens"]
        await desk.window()
        assert desk.engine.state()["resumed_tokens"] - before >= min(rows, len(prompt.ids)) // GRID * GRID
        forced = [call for call in desk.engine.calls if call.verb == "force"]
        assert len(forced) == bool(so_far)
        assert (await desk.take(prompt) or "").endswith(SUMMARY)


@pytest.mark.spec("SCH-083")
async def test_it_is_dropped_when_the_conversation_changes(autojump_clock: MockClock) -> None:
    async with open_desk() as desk:
        held = desk.hold()
        first, second = desk.asks(held), desk.asks(held, 4)
        await desk.grew(first)
        await desk.window()
        await desk.tell(Changed("another"))
        await desk.tell(Changed("c1"))
        assert await desk.take(first) is None
        await desk.grew(first)
        desk.said()
        await desk.grew(second, "c2")
        assert desk.said() == []  # the one window that is wanted will be the other's
        assert await desk.take(first) is None


@pytest.mark.spec("SCH-083")
async def test_what_comes_meanwhile_is_seen_at_the_next_chunk(autojump_clock: MockClock) -> None:
    async with open_desk() as desk:
        prompt = desk.asks(desk.hold())
        await desk.grew(prompt)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.window)
            await trio.sleep(8)
            assert await desk.take(prompt) is None
            await desk.tell(Changed("c1"))
        assert desk.said() == []


@pytest.mark.spec("SCH-083")
async def test_it_never_begins_where_it_would_cost_the_conversation_its_rows(autojump_clock: MockClock) -> None:
    async with open_desk() as desk:
        prompt = desk.asks(desk.hold())
        others = desk.hold("other " * 60)
        desk.engine.calls.clear()
        await desk.grew(prompt)
        await desk.window()
        assert [call.verb for call in desk.engine.calls] == []
        assert desk.engine.resident()[0] == tuple(others[:-1])
        assert await desk.take(prompt) is None
        assert desk.said() == []


async def test_a_fault_of_the_engine_costs_the_summary_alone(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_desk() as desk:
        held = desk.hold()
        await desk.grew(desk.asks(held, script='@fake {"say": "one two", "fail_at": 1}'))
        await desk.window()
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert desk.said() == []
        prompt = desk.asks(desk.hold())
        await desk.grew(prompt)
        await desk.window()
        assert await desk.take(prompt) == SUMMARY


@pytest.mark.spec("SCH-006")
async def test_after_a_defect_the_window_and_the_turn_are_free(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_desk() as desk:
        prompt = desk.asks(desk.hold())
        await desk.grew(prompt)
        with monkeypatch.context() as patch:
            patch.setattr("tandem.engine.decoding.resumable.Resumable.feed", lambda *_: [][0])
            await desk.window()
        assert await desk.take(prompt) is None, "the job has ended"
        prompt = desk.asks(desk.hold())
        await desk.grew(prompt)
        await desk.window()
        assert await desk.take(prompt) == SUMMARY
        assert desk.off == []


async def test_where_there_is_no_window_for_it_none_is_wanted(autojump_clock: MockClock) -> None:
    async with open_desk() as desk:
        prompt = desk.asks(desk.hold())
        await desk.grew(prompt)
        desk.said()
        await desk.tell(NotAllowed("for a reason"))
        assert desk.said() == []
        assert await desk.take(prompt) is None


@pytest.mark.spec("SCH-006")
async def test_where_the_broker_has_ended_for_good_the_slot_is_free_all_the_same(autojump_clock: MockClock) -> None:
    async with open_desk() as desk:
        await desk.grew(desk.asks(desk.hold()))
        [wanted] = desk.said()
        with desk._windows:
            wanted.to.offer(Window(0, desk.queue))
        await trio.sleep(1e4)
        assert desk._queue.receive_nowait() == SlotFree(0)
