"""The shadow reader: bursts in windows, a yield at the next chunk, what is told in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.host import InlineHost
from tandem.actors.kit import Actor, Inbox, Ref, Reply, open_mailbox, supervise
from tandem.actors.queue import QueueMessage
from tandem.actors.reader import MAX_WAITING, Ended, ShadowReader, TurnEnded
from tandem.actors.turns import Turns
from tandem.actors.windows import Done, NotAllowed, WantWindow, Window, WindowMessage
from tandem.engine.errors import EngineError

CHUNK = 10


class FakeReader:
    """Reads ten ids in a second; what it was asked for is in `calls`."""

    def __init__(self) -> None:
        self.sessions: Counter[str] = Counter()
        self.calls: list[str] = []
        self.fails = False
        self._elapsed = 0.0

    def read(self, conversation: str, ids: Sequence[int]) -> int:
        self._elapsed += 1.0
        self.calls.append(conversation)
        if self.fails:
            raise EngineError("no room")
        self.sessions[conversation] = min(len(ids), self.sessions[conversation] + CHUNK)
        return len(ids) - self.sessions[conversation]

    def park(self) -> None:
        self.calls.append("park")
        if self.fails:
            raise EngineError("no disk")

    def take_elapsed(self) -> float:
        elapsed, self._elapsed = self._elapsed, 0.0
        return elapsed


class Desk:
    """A shadow reader; the test is the broker."""

    def __init__(self, burst: int) -> None:
        windows: Ref[WindowMessage]
        self.queue: Ref[QueueMessage]
        self._queue: Inbox[QueueMessage]
        windows, self._windows = open_mailbox("windows", 100)
        self.queue, self._queue = open_mailbox("queue", 100)
        self.reader = FakeReader()
        self.turns = Turns(quantum_s=0.05)
        self.shadow = ShadowReader(
            reader=self.reader, host=InlineHost(self.reader), turns=self.turns.ref, windows=windows, burst=burst
        )
        self.ended: dict[str, list[Ended]] = {}

    async def turn(self, conversation: str, rows: int, nursery: trio.Nursery) -> None:
        reply = Reply[Ended]()

        async def listen() -> None:
            ended = await reply.wait()
            self.ended.setdefault(conversation, []).append(ended)

        nursery.start_soon(listen)
        await self.shadow.ref.tell(TurnEnded(conversation, tuple(range(rows)), reply))
        await wait_all_tasks_blocked()

    def said(self) -> list[Any]:
        said: list[Any] = []
        while (message := self._windows.receive_nowait()) is not None:
            said.append(message)
        return said

    async def window(self, seconds: float = 1e4) -> None:
        [wanted] = self.said()
        assert isinstance(wanted, WantWindow)
        window = Window(0, self.queue)
        wanted.to.offer(window)
        with trio.move_on_after(seconds) as scope:
            message = await self._windows.receive()
        if scope.cancelled_caught:
            window.yield_now.set()
            message = await self._windows.receive()
        assert message == Done("reader")
        await wait_all_tasks_blocked()
        assert self.turns._share.holder is None


@asynccontextmanager
async def open_desk(burst: int = 4) -> AsyncIterator[tuple[Desk, trio.Nursery]]:
    async with trio.open_nursery() as nursery:
        desk = Desk(burst)
        actors: tuple[Actor[Any], ...] = (desk.turns, desk.shadow)
        for actor in actors:
            await nursery.start(partial(supervise, actor, lambda name, defect: None))
        yield desk, nursery
        nursery.cancel_scope.cancel()


@pytest.mark.spec("SCH-082")
async def test_it_reads_in_bursts_and_parks_after_each(autojump_clock: MockClock) -> None:
    async with open_desk() as (desk, nursery):
        await desk.turn("a", 55, nursery)
        await desk.window()
        assert desk.reader.calls == [*"aaaa", "park"]
        assert desk.ended == {}
        await desk.window()
        assert desk.reader.calls[5:] == [*"aa", "park"]
        assert desk.ended == {"a": ["finished"]}
        assert desk.said() == []
        await desk.turn("a", 60, nursery)
        await desk.window()
        assert desk.reader.calls[8:] == ["a", "park"]


@pytest.mark.spec("SCH-081", "SCH-082")
async def test_told_to_yield_it_stops_after_the_chunk_in_flight_and_goes_on_there(autojump_clock: MockClock) -> None:
    async with open_desk() as (desk, nursery):
        await desk.turn("a", 30, nursery)
        begun = trio.current_time()
        await desk.window(1.5)
        assert trio.current_time() - begun == 2
        assert desk.reader.calls == ["a", "a"], "who waits does not wait for sessions to be saved"
        await desk.window()
        assert desk.reader.calls[2:] == ["a", "park"]
        assert desk.ended == {"a": ["finished"]}


@pytest.mark.spec("SCH-082")
async def test_what_is_told_of_each_turn_in_the_end(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_desk() as (desk, nursery):
        await desk.turn("a", 30, nursery)
        await desk.turn("a", 40, nursery)
        assert desk.ended == {"a": ["not_done"]}
        for number in range(MAX_WAITING):
            await desk.turn(f"b{number}", 10, nursery)
        assert desk.ended == {"a": ["not_done", "not_done"]}
        desk.reader.fails = True
        await desk.window()
        failed = {f"b{number}": ["failed"] for number in range(4)}
        assert desk.ended == {"a": ["not_done"] * 2} | failed
        assert len(caplog.records) == 5  # one a conversation, and one for the sessions
        await desk.shadow.ref.tell(NotAllowed("for a reason"))
        await wait_all_tasks_blocked()
        assert desk.ended["b4"] == ["not_done"]


@pytest.mark.spec("SCH-082")
async def test_a_turn_that_ends_in_a_window_is_read_in_it(autojump_clock: MockClock) -> None:
    async with open_desk() as (desk, nursery):
        await desk.turn("a", 10, nursery)
        async with trio.open_nursery() as inner:
            inner.start_soon(desk.window)
            await trio.sleep(0.5)
            await desk.turn("b", 10, nursery)
        assert desk.reader.calls == ["a", "b", "park"]
        assert desk.said() == []


@pytest.mark.spec("SCH-006")
async def test_after_a_defect_the_window_and_the_turn_are_free(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_desk() as (desk, nursery):
        await desk.turn("a", 10, nursery)
        with monkeypatch.context() as patch:
            patch.setattr(desk.shadow._host, "run_verb", lambda *_: 1 / 0)
            await desk.window()
        assert desk.ended == {"a": ["failed"]}
        await desk.turn("b", 10, nursery)
        await desk.window()
        assert desk.ended == {"a": ["failed"], "b": ["finished"]}
