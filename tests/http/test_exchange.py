"""A request's way through queue and slot, both of which are the test itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from tandem.actors.kit import Inbox, Ref, open_mailbox
from tandem.actors.line import Rank
from tandem.actors.outbox import Deltas, LaneEnded, LaneServed, MemoryWait, NoMemory, Outbox
from tandem.actors.queue import Enter, Granted, Leave, Lent, Needs, Place, SlotFree, Where
from tandem.actors.slots import Cancel, Run
from tandem.engine.decoding.generation import Generation
from tandem.engine.fake import FakeEngine
from tandem.engine.text.reading.deltas import Content, Finish, Timings, Usage
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import SamplingRules
from tandem.http.ahead import Ahead
from tandem.http.entry import Entry, Limits
from tandem.http.events import End, Event, Output, Silence, Waiting
from tandem.http.exchange import Exchange
from tandem.http.openai.errors import ApiError

T = TypeVar("T")
GIB = 1 << 30
FINISH = Finish("stop", Usage(), Timings())
END = Deltas(0, [Content("yes"), FINISH])


class Way:
    """An exchange whose messages to queue and slot the test reads and answers."""

    def __init__(
        self, *, stream: bool = True, is_lane: bool = False, wait_s: float = 100.0, first: Generation | None = None
    ) -> None:
        self.queue_ref: Ref[Any]
        self.slot_ref: Ref[Any]
        self.queue_ref, self.queue = open_mailbox("queue", 16)
        self.slot_ref, self.slot = open_mailbox("slot", 16)
        self.outbox = Outbox(stall_s=60)
        self.generation = generation()
        self.planned = trio.Event()
        self.exchange = Exchange(
            "r",
            () if first else (self.generation,),
            queue=self.queue_ref,
            outbox=self.outbox,
            entry=Entry(rank=Rank.TURN, needs=Needs(prompt=2, output=8), wait_s=wait_s, is_lane=is_lane),
            limits=Limits(request_timeout=1000, prefill_heartbeat=5),
            stream=stream,
            arrived_at=trio.current_time(),
            ahead=Ahead(first, self.then, rows=1) if first else None,
        )
        self.events: list[tuple[float, Event]] = []
        self.error: ApiError | None = None
        self.finishes: tuple[Finish, ...] = ()
        self.closed = trio.Event()

    async def then(self) -> tuple[Generation, ...]:
        """What follows the run ahead, once the test lets it be planned."""
        await self.planned.wait()
        return (self.generation,)

    async def serve(self) -> None:
        """The request's task."""
        begun = trio.current_time()
        try:
            while True:
                event = await self.exchange.next()
                self.events.append((round(trio.current_time() - begun, 3), event))
                if isinstance(event, End):
                    return
        except ApiError as error:
            self.error = error
        finally:
            with trio.CancelScope(shield=True):
                self.finishes = await self.exchange.aclose()
            self.closed.set()

    async def grant(self, **more: Any) -> None:
        """The queue grants slot 2, which gets the run."""
        enter = await told(self.queue, Enter)
        enter.reply.send(Granted(2, self.slot_ref, **more))
        self.run = await told(self.slot, Run)

    def put(self, *items: Any) -> None:
        for item in items:
            assert self.outbox.put(item, trio.current_time())

    async def end(self) -> None:
        """The slot's last words."""
        self.put(END)
        self.outbox.finish()
        await self.closed.wait()


def generation() -> Generation:
    engine = FakeEngine()
    return Generation(
        engine.text.read("hi"),
        SamplingRules(),
        limit=8,
        reader=PlainReader(engine.text),
        end_ids=engine.text.end_ids,
        grid=engine.card.anchor_grid,
        arrived_at=trio.current_time(),
    )


async def told(inbox: Inbox[Any], kind: type[T]) -> T:
    message = await inbox.receive()
    assert isinstance(message, kind), message
    return message


@asynccontextmanager
async def open_way(**more: Any) -> AsyncIterator[tuple[Way, trio.CancelScope]]:
    """The way, and the scope of the request's task."""
    way = Way(**more)
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def task() -> None:
            with scope:
                await way.serve()

        nursery.start_soon(task)
        yield way, scope
        nursery.cancel_scope.cancel()


@pytest.mark.spec("SCH-037", "SCH-105")
async def test_a_grant_tells_the_slot_and_the_wait_behind_own_work(autojump_clock: trio.testing.MockClock) -> None:
    async with open_way() as (way, _):
        await way.grant(wait_own_s=1.5)
        assert not way.run.guest
        await way.end()
        course = way.exchange.course
        assert (course.slot, course.wait_own_s, course.lane, course.wait_mem_s) == (2, 1.5, None, 0)
        assert [type(event) for _, event in way.events] == [Output, End]
        assert (way.queue.receive_nowait(), way.slot.receive_nowait()) == (None, None)


@pytest.mark.spec("SCH-026", "SCH-030", "API-142")
async def test_a_waiting_event_holds_reason_and_estimate(autojump_clock: trio.testing.MockClock) -> None:
    async with open_way() as (way, _):
        await told(way.queue, Enter)
        for at in (10, 20):
            where = await told(way.queue, Where)
            where.reply.send(Place(3, "own", 4.0))
            await wait_all_tasks_blocked()
            told_at, event = way.events[-1]
            assert told_at == at
            assert event == Waiting(position=3, waited_s=at, reason="own", estimate_s=4.0)


@pytest.mark.spec("SCH-115")
async def test_a_lane_job_without_a_place_still_opens_its_stream(autojump_clock: trio.testing.MockClock) -> None:
    async with open_way(is_lane=True) as (way, _):
        enter = await told(way.queue, Enter)
        assert enter.lane is not None
        (await told(way.queue, Where)).reply.send(None)
        await wait_all_tasks_blocked()
        assert way.events == [(10, Silence())]
        enter.reply.send(Granted(2, way.slot_ref, guest=True))
        assert (await told(way.slot, Run)).guest
        await way.end()


@pytest.mark.spec("SCH-039", "SCH-046")
async def test_a_lent_lane_needs_no_run_and_is_in_the_row(autojump_clock: trio.testing.MockClock) -> None:
    async with open_way(is_lane=True) as (way, _):
        enter = await told(way.queue, Enter)
        enter.reply.send(Lent(0, way.slot_ref))
        way.put(LaneServed("prefill"), END)
        await trio.sleep(2)
        assert not way.closed.is_set()  # the answer is out, the row waits for the holder's delay
        assert isinstance(way.events[-1][1], End)
        way.put(LaneEnded(0.25))
        way.outbox.finish()
        await way.closed.wait()
        course = way.exchange.course
        assert (course.slot, course.lane, course.lent_s) == (0, "prefill", 0.25)
        assert way.slot.receive_nowait() is None


@pytest.mark.spec("SCH-016", "SCH-044")
@pytest.mark.parametrize("lent", [True, False])
async def test_who_leaves_while_it_is_granted_gives_back(autojump_clock: trio.testing.MockClock, lent: bool) -> None:
    async with open_way(is_lane=lent) as (way, scope):
        enter = await told(way.queue, Enter)
        scope.cancel()
        leave = await told(way.queue, Leave)
        enter.reply.send(Lent(0, way.slot_ref) if lent else Granted(2, way.slot_ref))
        leave.reply.send(False)
        if lent:
            cancel = await told(way.slot, Cancel)
            way.outbox.finish()
            cancel.reply.send((FINISH,))
        else:
            assert await told(way.queue, SlotFree) == SlotFree(2)
        await way.closed.wait()
        assert way.finishes == ((FINISH,) if lent else ())


@pytest.mark.spec("SCH-016", "SCH-077")
async def test_a_guest_that_leaves_cancels_at_the_slot_that_lends(autojump_clock: trio.testing.MockClock) -> None:
    async with open_way(is_lane=True) as (way, scope):
        (await told(way.queue, Enter)).reply.send(Lent(0, way.slot_ref))
        way.put(LaneServed("decode"))
        await wait_all_tasks_blocked()
        scope.cancel()
        cancel = await told(way.slot, Cancel)
        way.put(LaneEnded(0.5))
        way.outbox.finish()
        cancel.reply.send((FINISH,))
        await way.closed.wait()
        assert way.exchange.course.lent_s == 0.5
        assert way.queue.receive_nowait() is None


@pytest.mark.spec("SCH-073", "SCH-032", "SCH-075")
async def test_who_waits_for_memory_is_told_how_much_is_short(autojump_clock: trio.testing.MockClock) -> None:
    async with open_way() as (way, _):
        await way.grant()
        for waited in range(25):
            way.put(MemoryWait(2 * GIB, waited))
            await trio.sleep(1)
        way.put(MemoryWait(0, 25.0))
        await trio.sleep(6)
        told_of = [(at, event) for at, event in way.events]
        assert told_of == [
            (at, Waiting(position=1, waited_s=at, reason="memory", missing=2 * GIB)) for at in (10.0, 20.0)
        ] + [(30.0, Silence())]
        await way.end()
        assert (way.exchange.course.wait_mem_s, way.exchange.course.missing) == (25.0, 0)


@pytest.mark.spec("API-200", "SCH-073")
async def test_no_memory_after_a_wait(autojump_clock: trio.testing.MockClock) -> None:
    async with open_way() as (way, _):
        await way.grant()
        way.put(MemoryWait(GIB, 7.0), NoMemory(10))
        way.outbox.finish()
        await way.closed.wait()
        assert way.error is not None
        assert (way.error.status, way.error.code, way.error.retry_after) == (503, "memory", 10)
        assert way.exchange.course.wait_mem_s == 7


@pytest.mark.spec("SCH-016", "SCH-018")
@pytest.mark.parametrize("granted", [True, False])
async def test_who_leaves_as_its_wait_ends_gives_back_what_came_meanwhile(
    autojump_clock: trio.testing.MockClock, granted: bool
) -> None:
    async with open_way(stream=False, wait_s=5.0) as (way, scope):
        enter = await told(way.queue, Enter)
        leave = await told(way.queue, Leave)
        if granted:
            enter.reply.send(Granted(2, way.slot_ref))
        scope.cancel()
        await wait_all_tasks_blocked()
        assert not way.closed.is_set()  # whether it still waits is not known yet
        leave.reply.send(not granted)
        await way.closed.wait()
        assert way.queue.receive_nowait() == (SlotFree(2) if granted else None)
