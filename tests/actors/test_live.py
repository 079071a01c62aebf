"""The live view's hub: when it ticks, what readers get, and that it sleeps."""

from __future__ import annotations

import datetime
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import Reply, supervise
from tandem.actors.live import Began, Ended, Live, Look, QueueSeen, Reader, Unwatch, WaitsSeen, Watch
from tandem.actors.waiters import Place
from tandem.actors.watchdog import WindowsSeen
from tandem.live.seen import RequestSeen
from tests.live.samples import EPOCH, QUEUED, SERVED, WRITING, outcome, seen, valid


class Wall:
    def now(self) -> datetime.datetime:
        return EPOCH + datetime.timedelta(seconds=trio.current_time())


@dataclass
class Hub:
    live: Live
    requests: dict[str, RequestSeen] = field(default_factory=dict)
    looks: list[float] = field(default_factory=list)
    """When a request was looked at."""

    def begin(self, request_id: str = "r1", **facts: Any) -> None:
        self.requests[request_id] = seen(request_id=request_id, arrived_at=trio.current_time(), **facts)

        def look() -> RequestSeen:
            self.looks.append(trio.current_time())
            return self.requests[request_id]

        assert self.live.ref.offer(Began(request_id, look))

    def becomes(self, request_id: str = "r1", **facts: Any) -> None:
        self.requests[request_id] = msgspec.structs.replace(self.requests[request_id], **facts)

    async def watch(self) -> Reader:
        reader: Reader | None = await self.live.ref.ask(Watch)
        assert reader is not None
        return reader

    async def look(self) -> Any:
        await wait_all_tasks_blocked()
        document: bytes = await self.live.ref.ask(Look)
        return valid(document)


@asynccontextmanager
async def open_hub(*, hz: int = 4, shows_activity: bool = True, max_readers: int = 64) -> AsyncIterator[Hub]:
    live = Live(
        SERVED,
        hz=hz,
        shows_activity=shows_activity,
        max_readers=max_readers,
        wall=Wall(),
        memory=lambda: {"resident": 5},
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, live, lambda name, defect: None))
        yield Hub(live)
        nursery.cancel_scope.cancel()


async def read(reader: Reader, count: int) -> list[tuple[float, Any]]:
    """The next events, and when they came."""
    events = []
    for _ in range(count):
        event = await reader.next()
        events.append((trio.current_time(), valid(event.data)))
    return events


@pytest.mark.spec("OBS-059", "API-244")
async def test_the_first_event_has_history_and_each_later_one_the_newest_sample(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        await trio.sleep(5)
        reader = await hub.watch()
        [(at, first), (_, second), (_, third)] = await read(reader, 3)
        assert at == 5.0
        assert len(first["history"]) == 5
        assert "history" not in second
        assert third["sample"]["t"] - first["sample"]["t"] == 2
        assert [event["seq"] for event in (first, second, third)] == [0, 1, 2]


@pytest.mark.spec("OBS-060", "API-244")
@pytest.mark.parametrize(("hz", "interval"), [(4, 0.25), (2, 0.5), (1, 1.0), (0, 1.0)])
async def test_events_come_at_the_set_rate_while_a_request_runs(
    autojump_clock: MockClock, hz: int, interval: float
) -> None:
    async with open_hub(hz=hz) as hub:
        reader = await hub.watch()
        hub.begin(**WRITING)
        events = await read(reader, 5)
        times = [at for at, _ in events[1:]]
        assert times == pytest.approx([interval * step for step in range(1, 5)])
        assert events[1][1]["interval_s"] == interval
        assert (events[1][1]["requests"][0]["activity"] is None) == (hz == 0)


@pytest.mark.spec("OBS-060", "API-245")
async def test_activity_off_leaves_rate_counts_and_figures(autojump_clock: MockClock) -> None:
    async with open_hub(shows_activity=False) as hub:
        reader = await hub.watch()
        hub.begin(**WRITING)
        events = await read(reader, 3)
        assert [at for at, _ in events] == [0.0, 0.25, 0.5]
        [row] = events[-1][1]["requests"]
        assert (row["activity"], row["timeline"], row["completion_tokens"]) == (None, [], 1)


@pytest.mark.spec("OBS-060")
async def test_without_requests_events_come_once_a_second(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        reader = await hub.watch()
        assert [at for at, _ in await read(reader, 4)] == [0.0, 1.0, 2.0, 3.0]
        await trio.sleep(0.3)
        hub.begin(**WRITING)
        assert [at for at, _ in await read(reader, 2)] == pytest.approx([3.5, 3.75])
        assert hub.live.ref.offer(Ended(outcome()))
        events = await read(reader, 3)
        assert [at for at, _ in events] == pytest.approx([4.0, 5.0, 6.0])  # the end itself is told at once
        assert [event["requests"][0]["phase"] for _, event in events] == ["done"] * 3


@pytest.mark.spec("OBS-060")
async def test_with_no_request_and_no_reader_it_sleeps() -> None:
    async with open_hub() as hub:
        reader = await hub.watch()
        await reader.next()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline <= 1.0
        hub.live.ref.offer(Unwatch(reader))
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == float("inf")


@pytest.mark.spec("OBS-060")
async def test_a_request_without_readers_is_sampled_each_second_and_then_it_sleeps(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        await trio.sleep(0.5)
        hub.begin(**WRITING)
        await trio.sleep(3)
        assert hub.looks == pytest.approx([1.0, 2.0, 3.0])
        hub.live.ref.offer(Ended(outcome()))
        await trio.sleep(1)
        assert hub.live.wakes_at == float("inf")
        event = await hub.look()
        assert [sample["running"] for sample in event["history"]] == [1, 1, 1, 0]
        assert event["sampler"]["ticks"] == 4


@pytest.mark.spec("OBS-061")
async def test_a_slow_reader_gets_the_newest_event_and_what_it_lost(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        slow, quick = await hub.watch(), await hub.watch()
        hub.begin(**WRITING)
        await slow.next()
        quick_events = await read(quick, 9)
        late = await slow.next()
        assert (late.seq, late.lost) == (8, 7)
        assert valid(late.data) == quick_events[-1][1]
        assert (await slow.next()).lost == 0


@pytest.mark.spec("OBS-059", "OBS-061")
async def test_a_reader_that_is_late_with_its_first_event_gets_a_new_one_with_history(
    autojump_clock: MockClock,
) -> None:
    async with open_hub() as hub:
        reader = await hub.watch()
        await trio.sleep(3.5)
        event = await reader.next()
        assert (event.seq, event.lost) == (3, 0)
        assert len(valid(event.data)["history"]) == 3


@pytest.mark.spec("OBS-061")
async def test_an_event_is_encoded_once_for_all_readers(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        readers = [await hub.watch() for _ in range(5)]
        for reader in readers:
            await reader.next()
        before = (await hub.look())["sampler"]["encodes"]
        events = [await reader.next() for reader in readers]
        assert len({id(event.data) for event in events}) == 1
        assert (await hub.look())["sampler"]["encodes"] == before + 2


@pytest.mark.spec("OBS-061")
async def test_there_are_so_many_readers_and_one_that_goes_makes_room(autojump_clock: MockClock) -> None:
    async with open_hub(max_readers=2) as hub:
        first, _second = await hub.watch(), await hub.watch()
        assert await hub.live.ref.ask(Watch) is None
        assert (await hub.look())["sampler"]["readers"] == 2
        hub.live.ref.offer(Unwatch(first))
        await hub.watch()
        await first.next()
        with pytest.raises(trio.EndOfChannel):
            await first.next()


@pytest.mark.spec("OBS-061")
async def test_a_reader_whose_asker_has_gone_takes_no_place(autojump_clock: MockClock) -> None:
    async with open_hub(max_readers=1) as hub:
        gone = Reply[Reader | None]()
        gone.close()
        await hub.live.ref.tell(Watch(gone))
        unread = Reply[Reader | None]()
        await hub.live.ref.tell(Watch(unread))
        await wait_all_tasks_blocked()
        unread.close()  # answered, and cancelled before it had the answer
        del unread
        gc.collect()
        assert (await hub.look())["sampler"]["readers"] == 0
        await hub.watch()


@pytest.mark.spec("OBS-069")
async def test_a_departed_client_shows_at_the_next_tick(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        reader = await hub.watch()
        hub.begin(**WRITING)
        await read(reader, 3)
        hub.becomes(client_gone_at=trio.current_time())
        [(_, event)] = await read(reader, 1)
        assert event["requests"][0]["activity"]["client"] == {"connected": False, "gone_ms": 250}


async def test_what_the_queue_says_is_in_the_next_event(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        hub.begin("a", **QUEUED)
        hub.begin("b", **QUEUED)
        hub.live.ref.offer(QueueSeen(2, 1, True, ("b", "a")))
        event = await hub.look()
        places = {row["request_id"]: row["activity"]["queue"]["place"] for row in event["requests"]}
        assert places == {"b": 1, "a": 2}
        assert event["engine"]["state"] == "draining"


@pytest.mark.spec("SCH-104")
async def test_what_the_actors_say_is_in_the_next_event(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        for request_id in ("a", "job"):
            hub.begin(request_id, **QUEUED)
        for message in (
            QueueSeen(1, 1, False, ("a",), lane=1),
            WaitsSeen({"a": Place(1, "own", 2.2)}, ("job",)),
            WindowsSeen("summary", {"summary": 1.0}),
        ):
            assert hub.live.ref.offer(message)
        event = await hub.look()
        job, a = (row["activity"] for row in event["requests"])
        assert (a["queue"]["reason"], a["queue"]["estimate_s"]) == ("own", 2.2)
        assert a["label"].endswith("background work first (prepares a summary ahead); about 2 s to go")
        assert job["label"] == "waits: next in the side lane"
        assert event["engine"]["own_work"]["name"] == "summary"


@pytest.mark.spec("OBS-062", "OBS-063")
async def test_the_event_tells_what_the_sampler_costs(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        reader = await hub.watch()
        [*_, (_, event)] = await read(reader, 4)
        sampler = event["sampler"]
        assert (sampler["ticks"], sampler["readers"]) == (2, 1)  # the tick that made it is not over
        assert sampler["tick_cost_ms"] > 0
        assert event["engine"]["memory"] == {"rss_bytes": 5, "peak_bytes": None}


async def test_a_failing_look_ends_nothing(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with open_hub() as hub:
        hub.live.ref.offer(Began("r1", lambda: 1 / 0))  # type: ignore[arg-type,return-value]
        with caplog.at_level(logging.ERROR):
            event = await hub.look()
        assert event["requests"][0]["phase"] == "unknown"
        assert len(caplog.records) == 1


async def test_readers_are_let_go_when_the_hub_ends(autojump_clock: MockClock) -> None:
    async with open_hub() as hub:
        reader = await hub.watch()
    assert (await reader.next()).seq == 0
    with pytest.raises(trio.EndOfChannel):
        await reader.next()
