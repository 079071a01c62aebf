from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tandem.actors.kit import ActorGone, Inbox, Ref, Reply, open_mailbox, supervise
from tandem.actors.line import Rank
from tandem.actors.outbox import Outbox
from tandem.actors.queue import (
    Arrived,
    Drain,
    Enter,
    Granted,
    Idle,
    Leave,
    Lent,
    Needs,
    Place,
    Queue,
    Refused,
    Resident,
    SlotFree,
    SlotGone,
    SlotProgress,
    TakeLane,
    Where,
)
from tandem.actors.slots import Run, SlotMessage
from tandem.actors.watchdog import QueueSeen, WatchdogMessage
from tandem.actors.windows import WindowMessage

SMALL = Needs(prompt=10, output=10)
"""Fits a side slot."""


class Desk:
    """A queue that runs, and what it has told the watchdog, the slots and the window broker."""

    def __init__(self, *, slots: int, max_queue: int) -> None:
        watchdog: Ref[WatchdogMessage]
        watchdog, self._seen = open_mailbox("watchdog", 10_000)
        windows: Ref[WindowMessage]
        windows, self._windows = open_mailbox("windows", 10_000)
        self.queue = Queue(max_queue=max_queue, watchdog=watchdog, windows=windows)
        self.refs: list[Ref[SlotMessage]] = []
        self.inboxes: list[Inbox[SlotMessage]] = []
        for slot in range(slots):
            ref: Ref[SlotMessage]
            inbox: Inbox[SlotMessage]
            ref, inbox = open_mailbox(f"slot {slot}", 1)
            self.queue.add_slot(slot, ref)
            self.refs.append(ref)
            self.inboxes.append(inbox)

    @property
    def ref(self) -> Ref[Any]:
        return self.queue.ref

    async def enter(
        self, key: str, rank: Rank = Rank.TURN, *, needs: Needs | None = SMALL, lane: Run | None = None
    ) -> Reply[Granted | Refused | Lent]:
        """Ask for a slot; the answer may have come when this returns."""
        reply = Reply[Granted | Refused | Lent]()
        await self.ref.tell(Enter(key, rank, reply, needs, lane))
        await wait_all_tasks_blocked()
        return reply

    async def question(self, key: str, rank: Rank = Rank.SIDE) -> Reply[Granted | Refused | Lent]:
        """Ask for a slot, or for a holder's safe point."""
        return await self.enter(key, rank, lane=job(key))

    async def take_lane(self) -> str | None:
        """What slot 0 gets at a safe point."""
        run: Run | None = await self.ref.ask(TakeLane)
        return None if run is None else run.request_id

    async def leave(self, key: str) -> bool:
        return await self.ref.ask(lambda reply: Leave(key, reply))

    async def free(self, slot: int) -> None:
        await self.ref.tell(SlotFree(slot))
        await wait_all_tasks_blocked()

    async def place(self, key: str) -> Place | None:
        return await self.ref.ask(lambda reply: Where(key, reply))

    async def where(self, key: str) -> int | None:
        place = await self.place(key)
        return None if place is None else place.position

    def told(self, slot: int = 0) -> int:
        """How many lane jobs that wait the slot has been told of, since the last call."""
        count = 0
        while self.inboxes[slot].receive_nowait() is not None:
            count += 1
        return count

    def windows(self) -> str:
        """What the window broker has been told since the last call: I(dle), A(rrived)."""
        said = ""
        while (message := self._windows.receive_nowait()) is not None:
            said += {Idle: "I", Arrived: "A"}[type(message)]
        return said

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


def job(key: str) -> Run:
    return Run(key, (), Outbox(stall_s=60), 60.0)


def slot_of(reply: Reply[Granted | Refused | Lent]) -> int | None:
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
        with trio.fail_after(30):
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
    waiting: dict[str, Reply[Granted | Refused | Lent]] = {}
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
                    rank = dice.choice(list(Rank))
                    key = f"{rank.name} {step}"
                    waiting[key] = await desk.enter(key, rank)
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
            if 0 not in running:  # nobody waits beside it, but own work while somebody runs
                assert not waiting or (running and all(key.startswith("OWN") for key in waiting))
        while running:
            slot, _ = running.popitem()
            await desk.free(slot)
            take_grants()
        assert waiting == {}
        assert desk.seen() == QueueSeen(waiting=0, running=0, draining=False)
        assert desk.queue._entered == {}


@pytest.mark.spec("SCH-039")
async def test_a_lane_job_is_handed_to_the_holder_that_asks() -> None:
    async with open_desk() as desk:
        assert slot_of(await desk.question("first")) == 0  # nobody runs: it is a request as any
        assert desk.told() == 0
        jobs = {key: await desk.question(key) for key in "ab"}
        assert desk.told() == 1  # the slot's inbox holds one message here
        assert desk.seen() == QueueSeen(waiting=0, running=1, draining=False, lane=2)
        assert [await desk.place(key) for key in "ab"] == [Place(1), Place(2)]
        assert await desk.take_lane() == "a"
        assert jobs["a"].take_nowait() == Lent(0, desk.refs[0])
        assert [await desk.where(key) for key in "ab"] == [None, 1]
        assert await desk.take_lane() == "b"
        assert await desk.take_lane() is None
        assert desk.seen() == QueueSeen(waiting=0, running=1, draining=False)
        assert not await desk.leave("a")


@pytest.mark.spec("SCH-044", "SCH-016")
async def test_a_lane_job_whose_client_has_left_is_not_handed_over() -> None:
    async with open_desk() as desk:
        await desk.enter("holder")
        jobs = {key: await desk.question(key) for key in "abcd"}
        jobs["a"].close()
        assert await desk.leave("b")
        assert await desk.take_lane() == "c"
        assert jobs["c"].take_nowait() == Lent(0, desk.refs[0])
        jobs["d"].close()
        assert await desk.take_lane() is None
        assert desk.queue._entered == {}


@pytest.mark.spec("SCH-044")
async def test_a_lane_job_that_a_failed_slot_does_not_take_ends() -> None:
    async with open_desk() as desk:
        await desk.enter("holder")
        lane, reply = job("a"), Reply[Granted | Refused | Lent]()
        await desk.ref.tell(Enter("a", Rank.TURN, reply, SMALL, lane))
        asked = Reply[Run | None]()
        asked.close()
        await desk.ref.tell(TakeLane(asked))
        await wait_all_tasks_blocked()
        assert isinstance(reply.take_nowait(), Lent)
        with trio.fail_after(30):
            assert await lane.outbox.take() is None


@pytest.mark.spec("SCH-039")
async def test_a_slot_that_did_not_hear_of_a_job_is_told_again() -> None:
    async with open_desk() as desk:
        await desk.enter("holder")
        await desk.question("a")
        assert desk.told() == 1
        await desk.ref.tell(progress(0))
        await wait_all_tasks_blocked()
        assert desk.told() == 1
        await desk.take_lane()
        await desk.ref.tell(progress(0))
        await wait_all_tasks_blocked()
        assert desk.told() == 0


@pytest.mark.spec("SCH-017", "SCH-010")
async def test_lane_jobs_are_bounded_by_themselves() -> None:
    async with open_desk(max_queue=2) as desk:
        await desk.enter("holder")
        for key in "ab":
            await desk.question(key)
        assert (await desk.question("ordinary", Rank.TURN)).take_nowait() is None
        assert (await desk.enter("turn")).take_nowait() is None
        assert (await desk.question("one too many")).take_nowait() == Refused("queue_full")
        assert desk.seen() == QueueSeen(waiting=2, running=1, draining=False, line=("ordinary", "turn"), lane=2)
        assert await desk.take_lane() == "a"
        assert (await desk.question("in its place")).take_nowait() is None
        assert await desk.take_lane() == "b"


@pytest.mark.spec("SCH-043", "SCH-011")
async def test_lane_jobs_that_nobody_took_stand_first_in_line_as_guests() -> None:
    async with open_desk(max_queue=2) as desk:
        await desk.enter("holder")
        turn = await desk.enter("turn")
        jobs = {key: await desk.question(key, Rank.TURN) for key in "ab"}
        assert (await desk.enter("another")).take_nowait() is None
        await desk.free(0)
        assert jobs["a"].take_nowait() == Granted(0, desk.refs[0], guest=True)
        assert desk.seen() == QueueSeen(waiting=3, running=1, draining=False, line=("b", "turn", "another"))
        late = await desk.question("late")  # a guest is a request: it may take a job at a safe point as well
        assert (await desk.question("ordinary")).take_nowait() == Refused("queue_full")
        await desk.free(0)
        assert jobs["b"].take_nowait() == Granted(0, desk.refs[0], guest=True)
        await desk.free(0)
        assert late.take_nowait() == Granted(0, desk.refs[0], guest=True)
        await desk.free(0)
        assert turn.take_nowait() == Granted(0, desk.refs[0])


@pytest.mark.spec("SCH-043", "SCH-051")
async def test_a_small_next_turn_is_no_guest_of_its_own_conversation(autojump_clock: trio.testing.MockClock) -> None:
    async with open_desk() as desk:
        await desk.enter("holder")
        talk = tuple(range(200))
        needs = {
            "next": Needs(prompt=220, output=9, keys=range(220)),
            "other": Needs(prompt=9, output=9, keys=talk[1:]),
        }
        jobs = {key: await desk.enter(key, Rank.TURN, lane=job(key), needs=each) for key, each in needs.items()}
        await desk.ref.tell(SlotFree(0, Resident(talk, prompt=190)))
        await wait_all_tasks_blocked()
        assert jobs["next"].take_nowait() == Granted(0, desk.refs[0])  # it resumes where that ended
        await desk.free(0)
        assert jobs["other"].take_nowait() == Granted(0, desk.refs[0], guest=True)


@pytest.mark.spec("SCH-043")
async def test_a_lane_job_that_finds_own_work_stands_in_line(autojump_clock: trio.testing.MockClock) -> None:
    async with open_desk() as desk:
        await desk.enter("own", Rank.OWN, needs=None)
        question = await desk.question("a")
        assert (desk.told(), desk.seen().lane) == (0, 0)
        assert desk.windows() == "IA"
        await desk.free(0)
        assert question.take_nowait() == Granted(0, desk.refs[0], guest=True)


@pytest.mark.spec("SCH-093")
async def test_a_drain_leaves_lane_jobs_to_the_holder_that_finishes() -> None:
    async with open_desk() as desk, trio.open_nursery() as nursery:
        await desk.enter("holder")
        turn = await desk.enter("turn")
        served, left = await desk.question("a"), await desk.question("b")
        nursery.start_soon(desk.ref.ask, Drain)
        await wait_all_tasks_blocked()
        assert turn.take_nowait() == Refused("draining")
        assert await desk.take_lane() == "a"
        assert served.take_nowait() == Lent(0, desk.refs[0])
        assert left.take_nowait() is None
        await desk.free(0)
        assert left.take_nowait() == Refused("draining")


@pytest.mark.spec("SCH-093")
@pytest.mark.parametrize("drain_first", [True, False])
async def test_a_drain_refuses_lane_jobs_of_a_slot_that_has_failed(drain_first: bool) -> None:
    async with open_desk(slots=2) as desk, trio.open_nursery() as nursery:
        await desk.enter("holder")
        await desk.enter("beside")
        question = await desk.question("a")
        if not drain_first:
            await desk.ref.tell(SlotGone(0))
        nursery.start_soon(desk.ref.ask, Drain)
        await wait_all_tasks_blocked()
        if drain_first:
            await desk.ref.tell(SlotGone(0))
            await wait_all_tasks_blocked()
        assert question.take_nowait() == Refused("draining")
        await desk.free(1)


@pytest.mark.spec("SCH-049", "SCH-053")
async def test_side_slots_take_who_fits_and_no_lane_job_while_slot_0_runs() -> None:
    async with open_desk(slots=3) as desk:
        await desk.enter("holder")
        big = await desk.enter("big", needs=Needs(prompt=65_500, output=1))
        unknown = await desk.enter("unknown", needs=None)
        assert slot_of(await desk.enter("small")) == 1
        assert (await desk.question("question")).take_nowait() is None
        assert desk.seen() == QueueSeen(waiting=2, running=2, draining=False, line=("big", "unknown"), lane=1)
        assert await desk.take_lane() == "question"
        await desk.free(0)
        assert slot_of(big) == 0
        await desk.free(0)
        assert slot_of(unknown) == 0


@pytest.mark.spec("SCH-010")
async def test_the_bound_refuses_nobody_whom_a_side_slot_takes() -> None:
    async with open_desk(slots=2, max_queue=1) as desk:
        await desk.enter("holder")
        await desk.enter("big", needs=Needs(prompt=1, output=65_536))
        assert slot_of(await desk.enter("small")) == 1
        assert (await desk.enter("too many")).take_nowait() == Refused("queue_full")
        assert (await desk.enter("own", Rank.OWN, needs=None)).take_nowait() is None  # own work does not count


@pytest.mark.spec("SCH-080", "SCH-015", "SCH-094")
async def test_the_window_broker_hears_of_the_last_end_and_the_first_arrival() -> None:
    async with open_desk(slots=2) as desk, trio.open_nursery() as nursery:
        assert desk.windows() == "I"
        await desk.enter("a")
        await desk.enter("b")
        assert desk.windows() == "A"
        await desk.free(0)
        own = await desk.enter("own", Rank.OWN, needs=None)
        assert (slot_of(own), desk.windows()) == (None, "")  # slot 1 still runs
        await desk.free(1)
        assert (slot_of(own), desk.windows()) == (0, "I")
        waits = await desk.enter("c")
        assert (slot_of(waits), desk.windows()) == (None, "A")  # slot 1 stands still while own work runs
        await desk.free(0)
        assert (slot_of(waits), desk.windows()) == (0, "")
        await desk.free(0)
        await desk.enter("own", Rank.OWN, needs=None)
        assert desk.windows() == "I"
        nursery.start_soon(desk.ref.ask, Drain)
        await wait_all_tasks_blocked()
        assert desk.windows() == "A"
        await desk.free(0)


@pytest.mark.spec("SCH-037", "SCH-028")
async def test_time_behind_own_work_is_kept_apart(autojump_clock: trio.testing.MockClock) -> None:
    async with open_desk() as desk:
        await desk.enter("own", Rank.OWN, needs=None)
        await trio.sleep(5)
        first = await desk.enter("a")
        await trio.sleep(2)
        second = await desk.enter("b")
        assert [await desk.place(key) for key in "ab"] == [Place(1, "own"), Place(2, "own")]
        await trio.sleep(1)
        await desk.free(0)
        assert first.take_nowait() == Granted(0, desk.refs[0], wait_own_s=3.0)
        assert await desk.place("b") == Place(1)
        await trio.sleep(10)
        await desk.free(0)
        assert second.take_nowait() == Granted(0, desk.refs[0], wait_own_s=1.0)


@pytest.mark.spec("SCH-028", "SCH-031", "SCH-032", "SCH-033")
async def test_places_have_reasons_and_estimates(autojump_clock: trio.testing.MockClock) -> None:
    async with open_desk() as desk:
        for written in (100, 200, 300, 400, 500):
            await desk.enter("turn")
            await trio.sleep(written / 10)
            await desk.ref.tell(SlotFree(0, progress=progress(0, written=written)))
            await desk.enter("side", Rank.SIDE)
            await trio.sleep(2)
            await desk.free(0)
        await desk.enter("holder")
        await desk.enter("turn")
        await desk.enter("later")
        await trio.sleep(20)  # hold times of 30, 40 and 50 s are left
        assert await desk.place("turn") == Place(1, "running", 20.0)
        await desk.ref.tell(progress(0, written=250))
        assert await desk.place("turn") == Place(1, "running", 25.0)  # of 50, 150 and 250 tokens the 75th percentile
        await trio.sleep(5)
        await desk.enter("side", Rank.SIDE)
        assert await desk.place("turn") == Place(2, "running", 22.0)
        assert await desk.place("later") == Place(3, "running", 52.0)
        await desk.free(0)
        assert await desk.place("turn") == Place(1, "side", 2.0)
        await trio.sleep(2)
        assert await desk.place("turn") == Place(1, "side", None)  # no side request has taken longer


@pytest.mark.spec("SCH-035", "SCH-091")
async def test_a_wait_for_own_work_is_estimated_by_such_waits(autojump_clock: trio.testing.MockClock) -> None:
    async with open_desk() as desk:
        for waited in (1, 2, 3, 4, 5):
            await desk.enter("own", Rank.OWN, needs=None)
            await desk.enter("turn")
            await trio.sleep(waited)
            await desk.free(0)
            await desk.free(0)
        await desk.enter("own", Rank.OWN, needs=None)
        await trio.sleep(60)
        await desk.enter("turn")
        assert await desk.place("turn") == Place(1, "own", 3.0)
        await trio.sleep(2.5)
        assert await desk.place("turn") == Place(1, "own", 1.5)
        await desk.free(0)
        await desk.enter("next")
        assert await desk.place("next") == Place(1, "running", None)  # what own work held counts for no request


def progress(slot: int, *, written: int = 1, limit: int = 1000) -> SlotProgress:
    return SlotProgress(
        slot=slot, rows_left=0, prefill_rate=None, written=written, limit=limit, thinks=False, decode_rate=10.0
    )
