"""Admission by bytes: the rule, the order of those who wait, what is given back, what the log says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import Ref, Reply, open_mailbox, supervise
from tandem.actors.memory import Admitted, Gone, MemoryKeeper, Release, Reserve, Short, missing
from tandem.actors.watchdog import MemorySeen, WatchdogMessage
from tandem.engine.caches.caching import MemoryView
from tandem.engine.memory import GIB

SIZES = st.integers(0, 1 << 40)


@pytest.mark.spec("SCH-072")
@given(SIZES, SIZES, SIZES, SIZES, st.none() | SIZES, SIZES)
def test_what_is_admitted_leaves_the_floor_free(
    available: int, growth: int, reserved: int, own: int, room: int | None, floor: int
) -> None:
    lacks = missing(available=available, growth=growth, reserved=reserved, own=own, room=room, floor=floor)
    taken = growth + reserved + own if room is None else min(growth + reserved + own, room)
    assert lacks >= 0
    assert (lacks == 0) == (available - taken >= floor)
    assert available + lacks - taken >= floor


@pytest.mark.spec("SCH-072")
def test_a_short_request_beside_a_long_one_is_admitted_at_once() -> None:
    beside = partial(missing, available=27 * GIB, room=None, floor=15 * GIB)
    long = round(1.3 * GIB)
    assert beside(growth=4 * GIB, reserved=long, own=round(1.15 * GIB)) == 0
    # A whole entry of the state store for each would not have fitted.
    assert beside(growth=4 * GIB, reserved=long + 6 * GIB, own=round(1.15 * GIB) + 6 * GIB) > 0


class Kept:
    """A memory keeper over `free` bytes."""

    def __init__(self, floor: int = 10) -> None:
        self.free: int | None = 100
        self.view = MemoryView()
        watchdog: Ref[WatchdogMessage]
        watchdog, self._seen = open_mailbox("watchdog", 10_000)
        self.keeper = MemoryKeeper(available=lambda: self.free, view=lambda: self.view, floor=floor, watchdog=watchdog)

    async def reserve(self, slot: int, need: int) -> Admitted | Short:
        answer: Admitted | Short = await self.keeper.ref.ask(lambda reply: Reserve(slot, f"r{slot}", need, reply))
        return answer

    async def tell(self, *messages: Release | Gone) -> None:
        for message in messages:
            await self.keeper.ref.tell(message)
        await wait_all_tasks_blocked()

    def seen(self) -> MemorySeen:
        """What it has told last."""
        last: WatchdogMessage | None = None
        while (message := self._seen.receive_nowait()) is not None:
            last = message
        assert isinstance(last, MemorySeen)
        return last


@asynccontextmanager
async def open_kept(floor: int = 10) -> AsyncIterator[Kept]:
    async with trio.open_nursery() as nursery:
        kept = Kept(floor)
        await nursery.start(partial(supervise, kept.keeper, lambda name, defect: None))
        yield kept
        nursery.cancel_scope.cancel()


@pytest.mark.spec("SCH-074", "SCH-072")
async def test_alone_it_always_passes_and_beside_others_by_bytes(autojump_clock: MockClock) -> None:
    async with open_kept() as kept:
        kept.free = 0
        assert await kept.reserve(0, 1000) == Admitted(alone=True)
        kept.free = 1049
        assert await kept.reserve(1, 40) == Short(1)
        kept.free = 1050
        assert await kept.reserve(1, 40) == Admitted(alone=False)


@pytest.mark.spec("SCH-074")
async def test_once_nothing_else_is_in_flight_the_first_who_waits_passes(autojump_clock: MockClock) -> None:
    async with open_kept() as kept:
        await kept.reserve(0, 1000)
        assert await kept.reserve(1, 10**6) == Short(10**6 + 1000 + 10 - 100)
        await kept.tell(Gone(0))
        assert await kept.reserve(0, 1) == Short(10**6 + 1 + 10 - 100, 2)
        assert await kept.reserve(1, 10**6) == Admitted(alone=True)


@pytest.mark.spec("SCH-072")
async def test_what_caches_may_grow_into_counts_and_no_more_than_the_peak_allows(autojump_clock: MockClock) -> None:
    async with open_kept() as kept:
        kept.view = MemoryView(reserved=50, ceiling=120, peak=1000)
        assert await kept.reserve(0, 5) == Admitted(alone=True)
        assert await kept.reserve(1, 16) == Short(70 + 5 + 16 + 10 - 100)
        assert await kept.reserve(1, 15) == Admitted(alone=False)
        kept.view = MemoryView(reserved=50, ceiling=120, peak=130)
        assert await kept.reserve(2, 500) == Admitted(alone=False)  # it cannot take more than 80
        kept.free = None
        assert await kept.reserve(3, 10**9) == Admitted(alone=False)  # nobody knows


@pytest.mark.spec("SCH-073")
async def test_who_asked_first_is_admitted_first(autojump_clock: MockClock) -> None:
    async with open_kept() as kept:
        await kept.reserve(0, 50)
        assert await kept.reserve(1, 60) == Short(20)
        assert await kept.reserve(2, 30) == Short(50, 2)  # it would fit, if the other did not wait
        assert await kept.reserve(1, 60) == Short(20)
        await kept.tell(Release(0))
        assert await kept.reserve(2, 31) == Short(1, 2)
        assert await kept.reserve(2, 30) == Admitted(alone=False)
        assert await kept.reserve(1, 60) == Admitted(alone=False)


@pytest.mark.spec("SCH-076")
async def test_a_reservation_is_back_once_the_prompt_is_read_and_at_every_end(autojump_clock: MockClock) -> None:
    async with open_kept() as kept:
        await kept.reserve(0, 50)
        await kept.reserve(1, 20)
        assert kept.seen().reserved == 70
        await kept.tell(Release(0))
        assert kept.seen().reserved == 20
        assert await kept.reserve(2, 71) == Short(1)  # the one that writes is in flight still
        await kept.tell(Gone(1), Gone(0), Gone(2), Gone(2), Release(5))
        assert kept.seen() == MemorySeen(reserved=0, floor=10, available=100, waits=1)


@pytest.mark.spec("SCH-076")
async def test_an_asker_that_has_gone_holds_nothing(autojump_clock: MockClock) -> None:
    async with open_kept() as kept:
        reply = Reply[Admitted | Short]()
        reply.close()
        await kept.keeper.ref.tell(Reserve(0, "r0", 50, reply))
        assert await kept.reserve(1, 10**6) == Admitted(alone=True)


@pytest.mark.spec("SCH-075", "SCH-112", "OBS-045", "OBS-043")
async def test_the_log_says_when_a_wait_begins_and_how_long_it_was(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with open_kept(floor=0) as kept:
        kept.free = GIB
        await kept.reserve(0, GIB)
        for _ in range(3):
            await kept.reserve(1, GIB // 2)
            await trio.sleep(1)
        await kept.reserve(2, GIB)
        await kept.tell(Gone(0))
        await kept.reserve(1, GIB // 2)
        await trio.sleep(1)
        await kept.tell(Release(1))
        await kept.reserve(2, GIB)
        await kept.reserve(3, GIB)
        await kept.tell(Gone(3))
        await kept.reserve(4, 0)
    assert caplog.messages == [
        "[memory] r1 waits: 0.50 GiB short beside 1 in flight",
        "[memory] r2 waits: 1.50 GiB short beside 1 in flight",
        "[memory] r1 admitted alone after 3.0 s",
        "[memory] r2 admitted after 1.0 s",
        "[memory] r3 waits: 1.00 GiB short beside 2 in flight",
        "[memory] r3 waits no more, after 0.0 s",
    ]


@pytest.mark.spec("SCH-074", "SCH-076")
async def test_whatever_comes_nobody_waits_for_nothing_and_nothing_is_left(autojump_clock: MockClock) -> None:
    for seed in range(30):
        random = Random(seed)
        async with open_kept(floor=random.randrange(50)) as kept:
            flying: set[int] = set()
            for _ in range(60):
                slot, kept.free = random.randrange(4), random.randrange(200)
                match random.choice(("reserve", "release", "gone")):
                    case "reserve" if slot not in flying:
                        answer = await kept.reserve(slot, random.randrange(150))
                        if isinstance(answer, Admitted):
                            flying.add(slot)
                        else:
                            assert flying or answer.position > 1
                    case "release":
                        await kept.tell(Release(slot))
                    case "gone":
                        await kept.tell(Gone(slot))
                        flying.discard(slot)
                    case _:
                        pass
            await kept.tell(*(Gone(slot) for slot in range(4)))
            assert kept.seen().reserved == 0
            assert await kept.reserve(3, 10**9) == Admitted(alone=True)
