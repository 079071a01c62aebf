from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tandem.actors.kit import ActorGone, Ref, Reply, open_mailbox, supervise
from tandem.actors.line import Rank
from tandem.actors.queue import Drain, Enter, Granted, Leave, Queue, Refused, SlotFree, SlotGone, Where
from tandem.actors.slots import SlotMessage
from tandem.actors.watchdog import QueueSeen, WatchdogMessage


class Desk:
    """A queue that runs, and what it has told the watchdog."""

    def __init__(self, *, slots: int, max_queue: int) -> None:
        watchdog: Ref[WatchdogMessage]
        watchdog, self._seen = open_mailbox("watchdog", 10_000)
        self.queue = Queue(max_queue=max_queue, watchdog=watchdog)
        self.refs: list[Ref[SlotMessage]] = []
        for slot in range(slots):
            ref: Ref[SlotMessage]
            ref, _ = open_mailbox(f"slot {slot}", 1)
            self.queue.add_slot(slot, ref)
            self.refs.append(ref)

    @property
    def ref(self) -> Ref[Any]:
        return self.queue.ref

    async def enter(self, key: str, rank: Rank = Rank.TURN) -> Reply[Granted | Refused]:
        """Ask for a slot; the answer may have come when this returns."""
        reply = Reply[Granted | Refused]()
        await self.ref.tell(Enter(key, rank, reply))
        await wait_all_tasks_blocked()
        return reply

    async def leave(self, key: str) -> bool:
        return await self.ref.ask(lambda reply: Leave(key, reply))

    async def free(self, slot: int) -> None:
        await self.ref.tell(SlotFree(slot))
        await wait_all_tasks_blocked()

    async def where(self, key: str) -> int | None:
        return await self.ref.ask(lambda reply: Where(key, reply))

    def seen(self) -> QueueSeen:
        """The newest report."""
        newest = None
        while (message := self._seen.receive_nowait()) is not None:
            newest = message
        assert isinstance(newest, QueueSeen)
        return newest


@asynccontextmanager
async def open_desk(*, slots: int = 1, max_queue: int = 8) -> AsyncIterator[Desk]:
    async with trio.open_nursery() as nursery:
        desk = Desk(slots=slots, max_queue=max_queue)
        await nursery.start(partial(supervise, desk.queue, lambda name, defect: pytest.fail(name)))
        yield desk
        nursery.cancel_scope.cancel()


def slot_of(reply: Reply[Granted | Refused]) -> int | None:
    """The slot that was granted just now, or None."""
    answer = reply.take_nowait()
    assert answer is None or isinstance(answer, Granted)
    return None if answer is None else answer.slot


@pytest.mark.spec("SCH-009")
async def test_a_free_slot_is_granted_at_once() -> None:
    async with open_desk() as desk:
        answer = (await desk.enter("a")).take_nowait()
        assert answer == Granted(0, desk.refs[0])
        assert desk.seen() == QueueSeen(waiting=0, running=1, draining=False)
        assert await desk.where("a") is None


@pytest.mark.spec("SCH-009", "SCH-011", "SCH-015")
async def test_the_slot_goes_to_the_best_who_waits() -> None:
    async with open_desk() as desk:
        await desk.enter("a")
        waiting = {
            key: await desk.enter(key, rank)
            for key, rank in [("own", Rank.OWN), ("turn", Rank.TURN), ("late turn", Rank.TURN), ("side", Rank.SIDE)]
        }
        assert [await desk.where(key) for key in waiting] == [4, 2, 3, 1]
        for key in ("side", "turn", "late turn", "own"):
            assert [slot_of(reply) for reply in waiting.values()] == [None] * 4
            await desk.free(0)
            assert slot_of(waiting[key]) == 0
        assert desk.seen() == QueueSeen(waiting=0, running=1, draining=False)
        await desk.free(0)
        assert desk.seen() == QueueSeen(waiting=0, running=0, draining=False)


@pytest.mark.spec("SCH-010")
@pytest.mark.parametrize("max_queue", [0, 2])
async def test_a_full_queue_refuses_at_once(max_queue: int) -> None:
    async with open_desk(max_queue=max_queue) as desk:
        assert slot_of(await desk.enter("running")) == 0
        for number in range(max_queue):
            assert (await desk.enter(f"waiting {number}")).take_nowait() is None
        assert (await desk.enter("one too many")).take_nowait() == Refused("queue_full")
        assert desk.seen().waiting == max_queue
        if max_queue:
            assert await desk.leave("waiting 0")
            assert (await desk.enter("in its place")).take_nowait() is None


@pytest.mark.spec("SCH-016")
async def test_who_leaves_is_out_when_it_is_answered() -> None:
    async with open_desk() as desk:
        await desk.enter("a")
        left, stays = await desk.enter("b"), await desk.enter("c")
        assert await desk.leave("b")
        assert await desk.where("c") == 1
        assert not await desk.leave("b")
        assert not await desk.leave("a")  # it runs
        await desk.free(0)
        assert (slot_of(left), slot_of(stays)) == (None, 0)


@pytest.mark.spec("SCH-002", "SCH-015")
async def test_a_slot_is_not_lost_to_an_asker_that_has_gone() -> None:
    async with open_desk() as desk:
        await desk.enter("a")
        for key in ("b", "c"):
            (await desk.enter(key)).close()
        waiting = await desk.enter("d")
        await desk.free(0)
        assert slot_of(waiting) == 0
        assert desk.seen() == QueueSeen(waiting=0, running=1, draining=False)
        (await desk.enter("e")).close()
        await desk.free(0)
        assert desk.seen() == QueueSeen(waiting=0, running=0, draining=False)


@pytest.mark.spec("SCH-092", "SCH-093")
async def test_a_drain_refuses_who_waits_and_who_comes_and_lets_finish_what_runs() -> None:
    async with open_desk(slots=2) as desk, trio.open_nursery() as nursery:
        drained: list[int] = []

        async def drain(number: int) -> None:
            await desk.ref.ask(Drain)
            drained.append(number)

        await desk.enter("a")
        await desk.enter("b")
        waiting = [await desk.enter(key) for key in "cd"]
        nursery.start_soon(drain, 1)
        await wait_all_tasks_blocked()
        assert [reply.take_nowait() for reply in waiting] == [Refused("draining")] * 2
        assert (await desk.enter("e")).take_nowait() == Refused("draining")
        assert desk.seen() == QueueSeen(waiting=0, running=2, draining=True)
        await desk.free(0)
        assert (await desk.enter("f")).take_nowait() == Refused("draining")
        nursery.start_soon(drain, 2)
        await wait_all_tasks_blocked()
        assert drained == []
        await desk.free(1)
        assert sorted(drained) == [1, 2]
        assert not await desk.leave("c")


@pytest.mark.spec("SCH-092")
async def test_a_drain_with_nothing_running_is_answered_at_once() -> None:
    async with open_desk(slots=2) as desk:
        with trio.fail_after(1):
            await desk.ref.ask(Drain)
            await desk.ref.ask(Drain)
        assert (await desk.enter("a")).take_nowait() == Refused("draining")


@pytest.mark.spec("SCH-006", "SCH-092")
async def test_a_drain_does_not_wait_for_a_slot_that_has_failed() -> None:
    async with open_desk(slots=2) as desk:
        await desk.enter("a")
        await desk.enter("b")
        waiting = await desk.enter("c")
        await desk.ref.tell(SlotGone(0))
        await desk.free(0)  # a grant that came too late for it is given back
        assert waiting.take_nowait() is None
        await desk.free(1)
        assert slot_of(waiting) == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.ref.ask, Drain)
            await wait_all_tasks_blocked()
            await desk.free(1)


async def test_who_waits_learns_that_the_queue_has_ended() -> None:
    async with open_desk() as desk:
        await desk.enter("a")
        waiting = await desk.enter("b")
    with pytest.raises(ActorGone):
        await waiting.wait()


async def test_two_slots_lowest_first() -> None:
    async with open_desk(slots=2) as desk:
        assert [slot_of(await desk.enter(key)) for key in "abc"] == [0, 1, None]
        await desk.free(1)
        assert desk.seen() == QueueSeen(waiting=0, running=2, draining=False)
        assert repr(desk.queue) == "<Queue 0 waiting, free slots [], draining False>"


@pytest.mark.spec("SCH-016")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_thousand_random_steps_lose_and_double_nothing(slots: int) -> None:
    dice = random.Random(slots)
    running: dict[int, str] = {}
    waiting: dict[str, Reply[Granted | Refused]] = {}
    granted: set[str] = set()

    def take_grants() -> None:
        for key, reply in list(waiting.items()):
            if (slot := slot_of(reply)) is not None:
                assert slot not in running
                assert key not in granted
                granted.add(key)
                running[slot] = key
                del waiting[key]

    async with open_desk(slots=slots, max_queue=10_000) as desk:
        for step in range(1000):
            match dice.choice(["enter", "enter", "leave", "vanish", "free", "free"]):
                case "enter":
                    key = f"r{step}"
                    waiting[key] = await desk.enter(key, dice.choice(list(Rank)))
                case "leave" if waiting:
                    key = dice.choice(list(waiting))
                    assert await desk.leave(key)
                    del waiting[key]
                case "vanish" if waiting:  # as a task does that ends without a word, before its `Leave` comes
                    key = dice.choice(list(waiting))
                    waiting.pop(key).close()
                case "free" if running:
                    slot = dice.choice(list(running))
                    del running[slot]
                    await desk.free(slot)
                case _:
                    continue
            take_grants()
            assert len(running) == slots or not waiting  # nobody waits beside a free slot
        while running:
            slot, _ = running.popitem()
            await desk.free(slot)
            take_grants()
        assert waiting == {}
        assert desk.seen() == QueueSeen(waiting=0, running=0, draining=False)
        assert desk.queue._replies == {}
