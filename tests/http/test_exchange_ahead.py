"""A request whose slot runs something ahead of it: two runs under one grant (SCH-025)."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from tandem.actors.outbox import Kept, NoMemory, PrefillProgress
from tandem.actors.queue import SlotFree
from tandem.actors.slots import Cancel, Run
from tandem.http.events import End, Output, Prefilling
from tests.http.test_exchange import END, FINISH, generation, open_way, told


@pytest.mark.spec("SCH-025", "SCH-024")
async def test_what_runs_ahead_is_followed_on_the_same_slot(autojump_clock: trio.testing.MockClock) -> None:
    first = generation()
    async with open_way(first=first) as (way, _):
        await way.grant()
        assert (way.run.generations, way.run.keeps, way.run.timeout_s) == ((first,), True, 1000)
        await trio.sleep(6)
        way.put(PrefillProgress(2, 2), NoMemory(10), END, Kept())
        await wait_all_tasks_blocked()
        assert way.slot.receive_nowait() is None, "it is being planned"
        await trio.sleep(4)
        way.planned.set()
        run = await told(way.slot, Run)
        assert (run.generations, run.keeps, run.timeout_s) == ((way.generation,), False, 990)
        await way.end()
        assert [event for _, event in way.events] == [Prefilling(1, 1, None, for_turn=False), Output([END]), End()]
        assert way.queue.receive_nowait() is None, "one grant for both"


@pytest.mark.spec("SCH-016", "SCH-025")
async def test_who_leaves_between_the_two_runs_gives_the_slot_back(autojump_clock: trio.testing.MockClock) -> None:
    async with open_way(first=generation()) as (way, scope):
        await way.grant()
        way.put(Kept())
        await wait_all_tasks_blocked()
        scope.cancel()
        assert await told(way.queue, SlotFree) == SlotFree(2)
        await way.closed.wait()
        assert way.finishes == ()


@pytest.mark.spec("SCH-016", "SCH-025")
@pytest.mark.parametrize("kept", [True, False])
async def test_who_leaves_during_the_run_ahead(autojump_clock: trio.testing.MockClock, kept: bool) -> None:
    """The slot has ended by itself meanwhile, and is ours, or has been stopped, and is not."""
    async with open_way(first=generation()) as (way, scope):
        await way.grant()
        await wait_all_tasks_blocked()
        scope.cancel()
        cancel = await told(way.slot, Cancel)
        if kept:
            way.put(END, Kept())
        else:
            way.outbox.finish()
        cancel.reply.send((FINISH,))
        await way.closed.wait()
        assert way.queue.receive_nowait() == (SlotFree(2) if kept else None)
        assert way.finishes == (), "what ran ahead is in no row"
