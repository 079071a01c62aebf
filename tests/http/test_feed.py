"""Frames, places and the parameters of a feed, without a service."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
import trio
import trio.testing
from werkzeug.datastructures import MultiDict

from tandem.http.feed.feed import Feed, Over, stream
from tandem.http.feed.frames import PING, Frame, bye, gap
from tandem.http.feed.logs import LogFollower, Wanted
from tandem.http.feed.readers import Readers
from tandem.http.openai.errors import ApiError
from tandem.http.query import Parameters
from tandem.logbook import LogBook

DATA = '{"label":"schreibt ü\\n\\"x\\""}'


@pytest.mark.spec("OBS-056", "OBS-057")
def test_a_frame_has_two_forms_with_the_same_payload() -> None:
    frame = Frame("live", 7, DATA.encode())
    assert frame.as_sse() == f"event: live\nid: 7\ndata: {DATA}\n\n".encode()
    assert frame.as_text() == f'{{"type":"live","seq":7,"data":{DATA}}}'
    assert json.loads(frame.as_text())["data"] == json.loads(DATA)


@pytest.mark.spec("OBS-047", "OBS-057")
def test_gap_and_bye() -> None:
    assert gap(6, 3).as_sse() == b'event: gap\nid: 6\ndata: {"dropped":3}\n\n'
    assert json.loads(gap(6, 3).as_text()) == {"type": "gap", "seq": 6, "data": {"dropped": 3}}
    assert json.loads(bye(6, "draining").as_text()) == {"type": "bye", "seq": 6, "data": {"reason": "draining"}}


async def test_places_are_counted_by_kind() -> None:
    readers = Readers()
    first, second = readers.take("log", 2), readers.take("log", 2)
    assert first is not None
    assert second is not None
    assert (readers.take("log", 2), readers.count("log"), readers.count("live")) == (None, 2, 0)
    assert readers.take("live", 1) is not None
    await first.aclose()
    await first.aclose()
    assert readers.count("log") == 1
    assert readers.take("log", 2) is not None


async def never() -> Sequence[Frame]:
    await trio.sleep_forever()
    raise AssertionError


async def test_readers_are_sent_away(autojump_clock: trio.testing.MockClock) -> None:
    readers = Readers()
    place = readers.take("live", 1)
    assert place is not None
    steps: list[object] = []

    async def read() -> None:
        steps.append(await Feed(never, place).next())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        readers.send_away()
    assert steps == [Over(bye(0, "draining"), 1001)]
    assert await Feed(never, place).next() == Over(bye(0, "draining"), 1001)


async def test_a_source_that_has_always_something_starves_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """Neither the ping nor the end of the session, nor other tasks."""
    place = Readers().take("live", 1)
    assert place is not None
    seq = 0

    async def busy() -> Sequence[Frame]:
        nonlocal seq
        await trio.lowlevel.checkpoint()
        seq += 1
        autojump_clock.jump(1.0)
        return [Frame("live", seq, b"{}")]

    feed = Feed(busy, place, trio.current_time() + 40)
    pieces = [piece async for piece in stream(feed)]
    assert pieces[0] == PING
    assert pieces.count(PING) == 3
    assert pieces[-1] == bye(seq, "session").as_sse()
    assert 38 <= seq <= 41


async def test_an_ended_source_ends_the_feed(autojump_clock: trio.testing.MockClock) -> None:
    async def ended() -> Sequence[Frame]:
        raise trio.EndOfChannel

    place = Readers().take("live", 1)
    assert place is not None
    assert await Feed(ended, place).next() == Over(bye(0, "off"), 1011)


def test_a_follower_takes_a_burst_in_parts() -> None:
    book = LogBook(1000)
    for _ in range(900):
        book.note(0.0, "INFO", "x", "line")
    follower = LogFollower(book, Wanted(), since=0, backlog=10)
    taken = [len(follower.take()) for _ in range(6)]
    assert taken == [200, 200, 200, 200, 100, 0]


def test_a_follower_passes_over_what_nobody_wants() -> None:
    book = LogBook(4)
    for number in range(6):
        book.note(0.0, "INFO", "x" if number % 2 else "y", str(number))
    follower = LogFollower(book, Wanted(source="x"), since=1, backlog=10)
    assert [(frame.kind, frame.seq) for frame in follower.take()] == [("gap", 2), ("log", 4), ("log", 6)]
    book.note(0.0, "INFO", "y", "6")
    assert follower.take() == []


@pytest.mark.spec("OBS-101")
def test_parameters() -> None:
    query = Parameters(MultiDict([("a", "1"), ("b", ""), ("c", "Two"), ("d", "x"), ("d", "y")]))
    assert (query.switch("a"), query.switch("absent")) == (True, False)
    assert (query.text("b"), query.whole("a", 0, 1), query.word("c", ("one", "two"))) == (None, 1, "two")
    with pytest.raises(ApiError, match="'d' is no parameter"):
        query.end()
    with pytest.raises(ApiError, match="d is there 2 times"):
        query.text("d")
    with pytest.raises(ApiError, match="a must be an integer from 2 to 3"):
        query.whole("a", 2, 3)
    with pytest.raises(ApiError, match="c must be one of one"):
        query.word("c", ("one",))
    query.end()
    with pytest.raises(ApiError, match="there are none"):
        Parameters(MultiDict([("x", "1")])).end()
