from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import Inbox, Ref, open_mailbox, supervise
from tandem.actors.live import LiveMessage
from tandem.actors.watchdog import (
    Counted,
    Look,
    MemorySeen,
    QueueSeen,
    Sight,
    SlotSeen,
    TurnsSeen,
    Watchdog,
    WindowsSeen,
)


class Guarded:
    """A watchdog over one actor, `worker`, whose inbox the test holds."""

    def __init__(self, *, sweep_s: float = 30.0, stuck_s: float = 120.0) -> None:
        self.swept: list[float] = []
        self.watchdog = Watchdog(sweep_s=sweep_s, stuck_s=stuck_s, sweeps=[self.swept.append])
        self.worker: Ref[int]
        self.inbox: Inbox[int]
        self.worker, self.inbox = open_mailbox("worker", 8)
        self.watchdog.watch(self.worker)
        self.off: list[str] = []

    def tell(self, *messages: QueueSeen | SlotSeen | Counted) -> None:
        for message in messages:
            assert self.watchdog.ref.offer(message)

    async def look(self) -> Sight:
        await wait_all_tasks_blocked()
        return await self.watchdog.ref.ask(Look)

    async def stuck(self) -> list[str]:
        return list((await self.look()).stuck)


@asynccontextmanager
async def open_guarded(*, sweep_s: float = 30.0, stuck_s: float = 120.0) -> AsyncIterator[Guarded]:
    async with trio.open_nursery() as nursery:
        guarded = Guarded(sweep_s=sweep_s, stuck_s=stuck_s)
        await nursery.start(partial(supervise, guarded.watchdog, lambda name, defect: guarded.off.append(name)))
        yield guarded
        nursery.cancel_scope.cancel()


@pytest.mark.spec("SCH-103")
async def test_a_look_is_answered_at_once_from_what_was_seen_last(autojump_clock: MockClock) -> None:
    async with open_guarded() as guarded:
        guarded.tell(QueueSeen(3, 1, False), SlotSeen(0, "prefilling", "r1"), QueueSeen(2, 1, True))
        before = trio.current_time()
        sight = await guarded.watchdog.ref.ask(Look)
        assert trio.current_time() == before
        assert (sight.waiting, sight.running, sight.draining) == (2, 1, True)
        assert sight.slots == {0: "prefilling"}
        assert (sight.stuck, sight.loop_lag_ms) == ((), 0.0)


@pytest.mark.spec("SCH-078", "SCH-103", "SCH-022")
async def test_ends_are_counted_by_their_reason(autojump_clock: MockClock) -> None:
    async with open_guarded() as guarded:
        guarded.tell(
            *(Counted(200, reason, None) for reason in ("stop", "length", "tool_calls", "stop")),
            Counted(500, "error", "internal_error"),
            Counted(200, "timeout", None),
            *[Counted(499, "abandoned", None)] * 2,
            *[Counted(503, "refused", "queue_full")] * 3,
            Counted(429, "refused", "queue_timeout"),
            Counted(400, "refused", None),
        )
        sight = await guarded.look()
        assert (sight.served, sight.errors, sight.timeouts, sight.abandoned) == (4, 1, 1, 2)
        assert sight.refused == {"queue_full": 3, "queue_timeout": 1, "400": 1}


@pytest.mark.spec("SCH-101")
async def test_a_slot_that_reaches_no_safe_point_is_flagged_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_guarded() as guarded:
        guarded.tell(SlotSeen(0, "writing", "r1"), SlotSeen(1, "idle", None))
        await trio.sleep(115)
        assert await guarded.stuck() == []
        await trio.sleep(500)
        assert await guarded.stuck() == ["slot 0"]
        assert caplog.messages == ["[watchdog] slot 0 has not moved for 120 s"]
        assert caplog.records[0].levelno == logging.ERROR
        guarded.tell(SlotSeen(0, "writing", "r1"))
        await trio.sleep(31)
        assert await guarded.stuck() == []
        await trio.sleep(300)
        assert await guarded.stuck() == ["slot 0"]
        assert len(caplog.messages) == 2
        guarded.tell(SlotSeen(0, "idle", None))
        await trio.sleep(1000)
        assert await guarded.stuck() == []


@pytest.mark.spec("SCH-101", "SCH-056")
async def test_a_slot_that_is_out_of_service_is_not_expected_to_move(autojump_clock: MockClock) -> None:
    async with open_guarded() as guarded:
        guarded.tell(SlotSeen(1, "gone", None))
        await trio.sleep(500)
        assert await guarded.stuck() == []


@pytest.mark.spec("SCH-101")
async def test_a_slot_that_goes_from_safe_point_to_safe_point_is_not(autojump_clock: MockClock) -> None:
    async with open_guarded() as guarded:
        for _ in range(20):
            guarded.tell(SlotSeen(0, "prefilling", "r1"))
            await trio.sleep(110)
            assert await guarded.stuck() == []


@pytest.mark.spec("SCH-101")
@pytest.mark.parametrize("begins_at", [0.0, 7.0])
async def test_a_waiting_queue_with_nothing_running_is_flagged_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, begins_at: float
) -> None:
    async with open_guarded() as guarded:
        await trio.sleep(begins_at)
        guarded.tell(QueueSeen(1, 0, False))
        await trio.sleep(100)
        guarded.tell(QueueSeen(2, 0, False))  # another one comes: it has stood still all the same
        assert await guarded.stuck() == []
        await trio.sleep(60)
        assert await guarded.stuck() == ["queue"]
        guarded.tell(QueueSeen(3, 0, False))
        await trio.sleep(100)
        assert caplog.messages == ["[watchdog] queue has not moved for 120 s"]
        guarded.tell(QueueSeen(2, 1, False))
        await trio.sleep(31)
        assert await guarded.stuck() == []
        await trio.sleep(1000)
        assert await guarded.stuck() == []  # it waits, and something runs


@pytest.mark.spec("SCH-101")
async def test_an_actor_that_takes_nothing_is_flagged_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_guarded() as guarded:
        guarded.worker.offer(1)
        guarded.worker.offer(2)
        await trio.sleep(110)
        assert await guarded.stuck() == []
        await trio.sleep(400)
        assert await guarded.stuck() == ["worker"]
        assert caplog.messages == ["[watchdog] worker has not moved for 120 s"]
        await guarded.inbox.receive()
        await trio.sleep(31)
        assert await guarded.stuck() == []
        await guarded.inbox.receive()
        await trio.sleep(1000)
        assert await guarded.stuck() == []  # with an empty inbox it may rest


@pytest.mark.spec("SCH-101")
async def test_a_name_is_flagged_once_however_many_signs_there_are(autojump_clock: MockClock) -> None:
    async with open_guarded() as guarded:
        queue: Ref[int]
        queue, _inbox = open_mailbox("queue", 8)
        slot: Ref[int]
        slot, _slot_inbox = open_mailbox("slot 0", 8)
        for ref in (queue, slot):
            guarded.watchdog.watch(ref)
            ref.offer(1)
        guarded.tell(QueueSeen(1, 0, False), SlotSeen(0, "writing", "r"))
        await trio.sleep(400)
        assert sorted(await guarded.stuck()) == ["queue", "slot 0"]


@pytest.mark.spec("SCH-101")
async def test_sweeps_come_as_often_as_they_are_wanted(autojump_clock: MockClock) -> None:
    async with open_guarded(sweep_s=5, stuck_s=2) as guarded:
        guarded.tell(SlotSeen(0, "writing", "r1"))
        await trio.sleep(4.9)
        assert await guarded.stuck() == []
        await trio.sleep(1.2)
        assert await guarded.stuck() == ["slot 0"]


@pytest.mark.spec("SCH-102", "SCH-098")
async def test_every_sweep_throws_away_what_is_past_its_lifetime(autojump_clock: MockClock) -> None:
    async with open_guarded(sweep_s=5) as guarded:
        await trio.sleep(16.5)
        assert guarded.swept == [5, 10, 15]


async def test_a_flood_of_messages_does_not_keep_it_from_sweeping(autojump_clock: MockClock) -> None:
    async with open_guarded() as guarded:
        guarded.tell(SlotSeen(0, "writing", "r1"))
        for _ in range(2000):
            guarded.tell(QueueSeen(0, 1, False))
            await trio.sleep(0.1)
        assert await guarded.stuck() == ["slot 0"]


async def test_a_blocked_loop_shows_as_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.actors.watchdog.TICK_S", 0.01)
    async with open_guarded(sweep_s=0.02) as guarded:
        await guarded.look()
        await trio.lowlevel.checkpoint()
        time.sleep(0.05)  # noqa: ASYNC251
        await trio.sleep(0.001)
        assert (await guarded.watchdog.ref.ask(Look)).loop_lag_ms > 35


async def test_the_lag_is_that_of_the_last_sweep_and_since(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_guarded(sweep_s=30) as guarded:
        await trio.sleep(0.5)
        autojump_clock.jump(0.75)  # nothing ran between 0.5 and 1.25 s: the tick of 1.0 comes late
        assert (await guarded.look()).loop_lag_ms == pytest.approx(250)
        await trio.sleep(31)
        assert (await guarded.look()).loop_lag_ms == pytest.approx(250)
        await trio.sleep(31)
        assert (await guarded.look()).loop_lag_ms == 0


@pytest.mark.spec("SCH-006")
async def test_after_a_defect_it_goes_on_with_what_it_knew(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_guarded() as guarded:
        guarded.tell(Counted(200, "stop", None))
        await wait_all_tasks_blocked()

        def defect(*_: object) -> None:
            raise LookupError

        with monkeypatch.context() as patch:
            patch.setattr(Watchdog, "_count", defect)
            guarded.tell(Counted(200, "stop", None))
            await wait_all_tasks_blocked()
        guarded.tell(Counted(200, "stop", None))
        assert (await guarded.look()).served == 2
        assert guarded.off == []


@pytest.mark.spec("SCH-104")
async def test_the_live_view_is_told_what_the_watchdog_is(autojump_clock: MockClock) -> None:
    live: Ref[LiveMessage]
    live, inbox = open_mailbox("live", 8)
    watchdog = Watchdog(sweep_s=30.0, stuck_s=120.0, live=live)
    seen = (SlotSeen(1, "gone", None), TurnsSeen(0, {}, 1, {}), MemorySeen(1, 2, None, 0), WindowsSeen("reader", {}))
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, watchdog, lambda name, defect: None))
        for message in (*seen, Counted(200, "stop", None)):
            assert watchdog.ref.offer(message)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert tuple(iter(inbox.receive_nowait, None)) == seen
