from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import Reply, supervise
from tandem.actors.turns import GiveUp, Turn, Turns, Want

QUANTUM = 0.05


@asynccontextmanager
async def open_turns() -> AsyncIterator[Turns]:
    async with trio.open_nursery() as nursery:
        turns = Turns(quantum_s=QUANTUM)
        await nursery.start(partial(supervise, turns, lambda name, defect: pytest.fail(name)))
        yield turns
        nursery.cancel_scope.cancel()


@dataclass
class Bench:
    """Scripted slots, and who worked when."""

    turns: Turns
    used: dict[int, float] = field(default_factory=dict)
    holding: list[int] = field(default_factory=list)
    hand_overs: int = 0

    async def want(self, slot: int) -> Turn:
        turn: Turn = await self.turns.ref.ask(lambda reply: Want(slot, reply))
        assert turn.slot == slot
        assert self.holding == []
        self.holding.append(slot)
        self.hand_overs += 1
        return turn

    async def give_up(self, slot: int) -> None:
        self.holding.remove(slot)
        await self.turns.ref.tell(GiveUp(slot))

    async def work(self, slot: int, step_s: float, until: float) -> None:
        """As a slot does: one piece of work after the other, and the turn back when it is recalled."""
        turn = await self.want(slot)
        while trio.current_time() < until:
            if turn.recalled.is_set():
                await self.give_up(slot)
                turn = await self.want(slot)
            await trio.sleep(step_s)
            self.used[slot] = self.used.get(slot, 0.0) + step_s
        await self.give_up(slot)


@pytest.mark.spec("SCH-057", "SCH-058")
async def test_a_slot_alone_keeps_the_turn(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        await bench.work(0, 0.01, until=5.0)
        assert bench.hand_overs == 1


@pytest.mark.spec("SCH-057", "SCH-058", "SCH-059")
@pytest.mark.parametrize("steps", [(0.01, 0.01), (0.02, 0.5), (1.3, 0.004)])
async def test_two_busy_slots_share_the_device(autojump_clock: MockClock, steps: tuple[float, float]) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        worst = 0.0
        async with trio.open_nursery() as nursery:
            for slot, step in enumerate(steps):
                nursery.start_soon(bench.work, slot, step, 20.0)
            while trio.current_time() < 20.0:
                await trio.sleep(0.1)
                if len(bench.used) == 2:
                    worst = max(worst, abs(bench.used[0] - bench.used[1]))
        # Half a step more: the bench counts a step at its end, the scheduler as it goes.
        assert worst <= QUANTUM + 2 * max(steps)
        assert sum(bench.used.values()) == pytest.approx(20.0, abs=2 * max(steps))
        assert bench.hand_overs > 4


@pytest.mark.spec("SCH-058")
async def test_the_recall_comes_a_quantum_after_the_other_has_come(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        turn = await bench.want(0)
        await trio.sleep(3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.want, 1)
            await trio.sleep(0.049)
            assert not turn.recalled.is_set()
            await trio.sleep(0.002)
            assert turn.recalled.is_set()
            await trio.sleep(4)  # a long piece of work: the other waits for its end
            assert bench.holding == [0]
            await bench.give_up(0)
            await wait_all_tasks_blocked()
            assert bench.holding == [1]
        assert repr(turns) == "<Turns holder 1, seconds {0: 7.051, 1: 3.0}>"


@pytest.mark.spec("SCH-002", "SCH-062")
async def test_the_turn_is_not_lost_to_a_slot_that_has_gone(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        await bench.want(0)
        gone = Reply[Turn]()
        await turns.ref.tell(Want(1, gone))
        gone.close()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.want, 2)
            await wait_all_tasks_blocked()
            await bench.give_up(0)
            await wait_all_tasks_blocked()
            assert bench.holding == [2]
        await bench.give_up(2)
        await wait_all_tasks_blocked()
        with trio.fail_after(1):
            await bench.want(1)


@pytest.mark.spec("SCH-062")
async def test_giving_up_what_one_does_not_hold_changes_nothing(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        await turns.ref.tell(GiveUp(1))
        turn = await bench.want(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.want, 1)
            await turns.ref.tell(GiveUp(1))
            await trio.sleep(1)
            assert bench.holding == [0]
            assert turn.recalled.is_set()
            await bench.give_up(0)


@pytest.mark.spec("SCH-059")
async def test_ties_go_to_the_lower_number(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        replies = {slot: Reply[Turn]() for slot in (3, 1, 2)}
        await turns.ref.tell(Want(0, Reply()))
        for slot, reply in replies.items():
            await turns.ref.tell(Want(slot, reply))
        await turns.ref.tell(GiveUp(0))
        for slot in (1, 2, 3):
            assert (await replies[slot].wait()).slot == slot
            await turns.ref.tell(GiveUp(slot))
