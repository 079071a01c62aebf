"""A request beside others asks for its memory before it reads, and waits without the GPU turn (SCH-071 to SCH-076)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import Ref, open_mailbox, supervise
from tandem.actors.memory import Admitted, MemoryKeeper, MemoryMessage, Reserve
from tandem.actors.outbox import MemoryWait, NoMemory
from tandem.actors.watchdog import WatchdogMessage
from tandem.engine.fake import FakeEngine
from tests.actors.box import Box, Request, open_box

LA = {"say": " la", "loop": True, "token_ms": 10, "prefill_ms_per_token": 1}


@dataclass
class Machine:
    """Bytes that are free, and the keeper that looks at them."""

    free: int
    keeper: MemoryKeeper


@asynccontextmanager
async def open_machine(free: int) -> AsyncIterator[tuple[Box, trio.Nursery, Machine]]:
    """Every request may need 100 bytes and one a token."""
    watchdog: Ref[WatchdogMessage]
    watchdog, _ = open_mailbox("watchdog", 10_000)
    engine = FakeEngine(slots=2, worst=(100, 1))
    keeper = MemoryKeeper(available=lambda: machine.free, view=engine.memory, floor=0, watchdog=watchdog)
    machine = Machine(free, keeper)
    async with trio.open_nursery() as actors:
        await actors.start(partial(supervise, keeper, lambda name, defect: pytest.fail(name)))
        async with open_box(engine, memory=keeper.ref, queue_timeout_s=20.0) as (box, nursery):
            yield box, nursery, machine
        actors.cancel_scope.cancel()


def waits(request: Request) -> list[tuple[float, int]]:
    return [(item.waited_s, item.missing) for _, item in request.items if isinstance(item, MemoryWait)]


@pytest.mark.spec("SCH-071", "SCH-073", "SCH-075", "SCH-076", "SCH-062")
async def test_it_waits_in_slices_of_a_second_while_the_other_has_the_engine(autojump_clock: MockClock) -> None:
    async with open_machine(3000) as (box, nursery, machine):
        first = await box.run(LA, nursery=nursery, words=3000, limit=100)
        second = await box.run(LA, nursery=nursery, words=500, limit=100)
        await wait_all_tasks_blocked()
        assert machine.keeper._held.keys() == {0}
        await trio.sleep(10)
        (last_wait, missing) = waits(second)[-1]
        assert missing == 0
        assert [round(waited) for waited, _ in waits(second)] == [0, 1, 2, 3, 4]  # to the end of the other's prefill
        assert last_wait == pytest.approx(4.0)
        assert first.finish.timings.prompt_ms == pytest.approx(3100, abs=100)  # nobody took a turn in between
        assert second.finish.timings.queue_ms == pytest.approx(4000)
        assert [len(first.text()), len(second.text())] == [300, 300]
        assert machine.keeper._held == {}
        await box.rest()


@pytest.mark.spec("SCH-073", "SCH-076")
async def test_after_the_queue_timeout_there_is_no_memory(autojump_clock: MockClock) -> None:
    async with open_machine(100) as (box, nursery, machine):
        await box.run(LA | {"prefill_ms_per_token": 10}, nursery=nursery, words=3000, limit=10)
        second = await box.run(LA, nursery=nursery, limit=100)
        await trio.sleep(15)
        assert len([seen for seen in box.seen() if seen.slot == 1]) >= 14  # it is not stuck
        await trio.sleep(10)
        assert second.ended_at == pytest.approx(20.0)
        assert [item for _, item in second.items if isinstance(item, NoMemory)] == [NoMemory(10)]
        assert second.finish.reason == "error"
        await trio.sleep(30)
        assert machine.keeper._held == {}
        await box.rest()


@pytest.mark.spec("SCH-077", "SCH-079", "SCH-076")
async def test_who_leaves_while_it_waits_is_gone_at_once(autojump_clock: MockClock) -> None:
    async with open_machine(100) as (box, nursery, machine):
        await box.run(LA | {"prefill_ms_per_token": 10}, nursery=nursery, words=3000, limit=10)
        second = await box.run(LA, nursery=nursery, limit=100, n=2)
        await trio.sleep(2.5)
        finishes = await box.cancel(second, slot=1)
        assert trio.current_time() == pytest.approx(2.5)
        assert [finish.reason for finish in finishes] == ["abandoned", "abandoned"]
        await wait_all_tasks_blocked()
        assert machine.keeper._held.keys() == {0}
        assert machine.keeper._waiters == {}
        await trio.sleep(60)
        await box.rest()


@pytest.mark.spec("SCH-075", "SCH-105")
async def test_the_keepers_own_time_is_no_wait_for_memory(autojump_clock: MockClock) -> None:
    memory: Ref[MemoryMessage]
    memory, inbox = open_mailbox("memory", 16)

    async def keep_slowly() -> None:
        async for message in inbox:
            if isinstance(message, Reserve):
                await trio.sleep(0.001)
                message.reply.send(Admitted(alone=True))

    async with open_box(memory=memory) as (box, nursery):
        nursery.start_soon(keep_slowly)
        request = await box.run({"say": "a b"})
        assert request.text() == "a b"
        assert waits(request) == []
