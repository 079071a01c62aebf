"""Idle windows: when they open, for whom, what closes them, and what is given back whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.keeper import Busy, KeeperMessage, Rested
from tandem.actors.kit import Inbox, Ref, open_mailbox, supervise
from tandem.actors.line import Rank
from tandem.actors.queue import Arrived, Enter, Granted, Idle, Leave, QueueMessage, Refused, SlotFree
from tandem.actors.slots import SlotMessage
from tandem.actors.watchdog import WatchdogMessage, WindowsSeen
from tandem.actors.windows import Done, NotAllowed, OwnJob, Role, WantWindow, Window, WindowMessage, Windows, refusal


class Broker:
    """A broker; the test is its queue, its jobs and whoever listens."""

    def __init__(self) -> None:
        queue: Ref[QueueMessage]
        watchdog: Ref[WatchdogMessage]
        keeper: Ref[KeeperMessage]
        self.slot: Ref[SlotMessage]
        queue, self._queue = open_mailbox("queue", 100)
        watchdog, self._watchdog = open_mailbox("watchdog", 100)
        keeper, self._keeper = open_mailbox("keeper", 100)
        self.slot, _ = open_mailbox("slot 0", 1)
        self.windows = Windows(watchdog=watchdog)
        self.windows.begin_with(queue, keeper)
        self.jobs: dict[OwnJob, tuple[Ref[Any], Inbox[Any]]] = {}
        self.off: list[str] = []

    async def tell(self, *messages: WindowMessage) -> None:
        for message in messages:
            await self.windows.ref.tell(message)
        await wait_all_tasks_blocked()

    async def want(self, name: OwnJob, role: Role = "idle") -> None:
        self.jobs.setdefault(name, open_mailbox(name, 4))
        await self.tell(WantWindow(name, role, self.jobs[name][0]))

    def got(self, name: OwnJob) -> Any:
        """What has come for a job, or None."""
        return self.jobs[name][1].receive_nowait()

    def said(self, inbox: str = "queue") -> list[Any]:
        """What the broker has told since the last call."""
        said: list[Any] = []
        box: Inbox[Any] = getattr(self, f"_{inbox}")
        while (message := box.receive_nowait()) is not None:
            said.append(message)
        return said

    async def grant(self) -> None:
        """The queue has one entry of it, and grants that."""
        [entered] = self.said()
        assert isinstance(entered, Enter)
        assert entered.rank is Rank.OWN
        entered.reply.send(Granted(0, self.slot))
        await wait_all_tasks_blocked()

    async def open_for(self, name: OwnJob) -> Window:
        await self.want(name)
        await self.grant()
        window = self.got(name)
        assert isinstance(window, Window)
        return window


@asynccontextmanager
async def open_broker() -> AsyncIterator[Broker]:
    async with trio.open_nursery() as nursery:
        broker = Broker()
        await nursery.start(partial(supervise, broker.windows, lambda name, defect: broker.off.append(name)))
        yield broker
        nursery.cancel_scope.cancel()


@pytest.mark.spec("SCH-080")
async def test_a_window_opens_for_one_job_at_a_time_in_the_order_asked(autojump_clock: MockClock) -> None:
    async with open_broker() as broker:
        await broker.want("reader")
        await broker.want("summary")
        await broker.want("reader")
        assert broker.said() == []  # nobody has said that the engine is idle
        await broker.tell(Idle())
        await broker.grant()
        assert isinstance(broker.got("reader"), Window)
        assert (broker.got("reader"), broker.got("summary"), broker.said()) == (None, None, [])
        await broker.tell(Done("summary"))  # it wants none any more
        await broker.want("summary")
        await broker.tell(Done("reader"))
        [free, entered] = broker.said()
        assert free == SlotFree(0)
        entered.reply.send(Granted(0, broker.slot))
        await wait_all_tasks_blocked()
        assert isinstance(broker.got("summary"), Window)
        await broker.tell(Done("summary"), Done("summary"))
        assert broker.said() == [SlotFree(0)]


@pytest.mark.spec("SCH-081", "SCH-080")
async def test_an_arrival_closes_it_and_the_next_waits_for_the_next_idle_time(autojump_clock: MockClock) -> None:
    async with open_broker() as broker:
        await broker.tell(Idle())
        window = await broker.open_for("summary")
        assert not window.yield_now.is_set()
        await broker.tell(Arrived())
        assert window.yield_now.is_set()
        await broker.tell(Done("summary"))
        await broker.want("summary")
        assert broker.said() == [SlotFree(0)]
        await broker.tell(Idle())
        await broker.grant()
        assert isinstance(broker.got("summary"), Window)


@pytest.mark.spec("SCH-080")
async def test_a_grant_that_comes_too_late_goes_back(autojump_clock: MockClock) -> None:
    async with open_broker() as broker:
        await broker.want("summary")
        await broker.tell(Idle())
        [entered] = broker.said()
        await broker.tell(Arrived())
        entered.reply.send(Granted(0, broker.slot))
        await wait_all_tasks_blocked()
        assert (broker.got("summary"), broker.said()) == (None, [SlotFree(0)])
        await broker.tell(Idle())
        [entered] = broker.said()
        await broker.tell(Done("summary"))
        entered.reply.send(Granted(0, broker.slot))
        await wait_all_tasks_blocked()
        assert (broker.got("summary"), broker.said()) == (None, [SlotFree(0)])


@pytest.mark.spec("SCH-094")
async def test_while_it_drains_nothing_opens(autojump_clock: MockClock) -> None:
    async with open_broker() as broker:
        await broker.tell(Idle())
        await broker.want("reader")
        [entered] = broker.said()
        entered.reply.send(Refused("draining"))
        await wait_all_tasks_blocked()
        await broker.want("summary")
        assert broker.said() == []


@pytest.mark.spec("SCH-090")
async def test_a_role_is_held_to_what_it_declares(autojump_clock: MockClock) -> None:
    works: tuple[OwnJob, ...] = ("summary", "reader", "deciders", "probe")
    for work in works:
        assert refusal(work, "idle") is None
        assert refusal(work, "any") is None
        assert refusal(work, "in_decode") is not None
    assert "low-priority stream" in str(refusal("deciders", "in_decode"))
    async with open_broker() as broker:
        await broker.tell(Idle())
        await broker.want("deciders", "in_decode")
        refused = broker.got("deciders")
        assert isinstance(refused, NotAllowed)
        assert broker.said() == []
        await broker.want("deciders", "any")
        await broker.grant()
        assert isinstance(broker.got("deciders"), Window)


async def test_a_job_that_listens_no_more_is_passed_over(autojump_clock: MockClock) -> None:
    async with open_broker() as broker:
        await broker.want("reader")
        await broker.want("summary")
        with broker.jobs["reader"][1]:
            pass  # its actor has ended
        await broker.tell(Idle())
        await broker.grant()
        assert isinstance(broker.got("summary"), Window)


@pytest.mark.spec("SCH-006")
async def test_after_a_defect_nothing_is_held_twice_or_for_ever(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_broker() as broker:
        await broker.want("summary")
        await broker.tell(Idle())
        [entered] = broker.said()

        def defect(*_: object) -> None:
            raise LookupError

        with monkeypatch.context() as patch:
            patch.setattr("tandem.actors.windows.refusal", defect)
            await broker.want("reader")
        [left] = broker.said()
        assert isinstance(left, Leave)
        assert left.request_id == entered.request_id
        assert not entered.reply.send(Granted(0, broker.slot)), "the entry of before has nobody any more"
        await broker.want("reader")
        await broker.grant()
        assert isinstance(broker.got("summary"), Window)
        await broker.tell(Done("summary"))
        assert broker.said()[0] == SlotFree(0)
        assert broker.off == []


@pytest.mark.spec("SCH-006")
async def test_a_window_that_a_job_never_reads_is_closed_when_it_stays_off(autojump_clock: MockClock) -> None:
    async with open_broker() as broker:
        await broker.want("summary")
        await broker.tell(Idle())
        await broker.grant()
        assert broker.said() == []
        with broker.jobs["summary"][1]:
            pass  # its inbox is closed
        await wait_all_tasks_blocked()
        assert broker.said() == [SlotFree(0)]
        window = await broker.open_for("reader")
        await window.leave("reader", broker.windows.ref)
        await wait_all_tasks_blocked()
        assert broker.said() == [SlotFree(0)]


@pytest.mark.spec("SCH-106")
async def test_it_tells_who_is_inside_and_how_long_each_was(autojump_clock: MockClock) -> None:
    async with open_broker() as broker:
        await broker.tell(Idle())
        for _ in range(2):
            await broker.open_for("summary")
            await trio.sleep(3)
            await broker.tell(Done("summary"))
            broker.said()
        assert broker.said("watchdog") == [
            WindowsSeen(None, {}),
            WindowsSeen("summary", {}),
            WindowsSeen(None, {"summary": 3}),
            WindowsSeen("summary", {"summary": 3}),
            WindowsSeen(None, {"summary": 6}),
        ]
        assert broker.said("keeper") == [Busy(0), Rested(0)] * 2
