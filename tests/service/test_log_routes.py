"""/v1/dashboard/logs: by the page, as server-sent events and over a websocket (OBS-046, OBS-047, API-246, API-247)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio
import trio.testing

import tandem
from tandem.draining import drain
from tandem.http.feed.logs import MOST
from tandem.http.routes.logs import MAX_READERS
from tandem.logbook import LINES_KEPT
from tandem.secrets import Secrets
from tests.service.harness import Call, Harness, Socket, open_harness

LOGS = "/v1/dashboard/logs"
CONTRACT = Path(tandem.__file__).parent / "contract"
SCHEMA = json.loads((CONTRACT / "logs.schema.json").read_text())
LINE = {**SCHEMA["properties"]["lines"]["items"], "$schema": SCHEMA["$schema"]}
PASSWORD = "correct horse battery staple SECRETS"
REMOTE = "192.0.2.7"
ID = "chatcmpl-0123456789abcdef01234567"

Clock = trio.testing.MockClock


def note(harness: Harness, count: int = 1, *, level: str = "INFO", source: str = "x", msg: str = "line") -> None:
    for _ in range(count):
        harness.service.context.logs.note(1.5, level, source, msg)


def told(call: Call) -> list[tuple[str | None, str | None, Any]]:
    return [(event.kind, event.id, event.data) for event in call.events if event.comment is None]


def seqs(call: Call) -> list[int]:
    return [event.data["seq"] for event in call.events if event.kind == "log"]


async def page(harness: Harness, query: str = "") -> Any:
    call = await harness.client.send(LOGS + query)
    assert (call.status, call.headers["content-type"]) == (200, "application/json")
    assert call.headers["cache-control"] == "no-store"
    jsonschema.validate(call.json, SCHEMA)
    return call.json


async def rest() -> None:
    """Long enough for every reader to have looked."""
    await trio.sleep(0.3)


@pytest.mark.spec("OBS-075")
def test_the_example_is_valid() -> None:
    jsonschema.validate(json.loads((CONTRACT / "examples/logs.json").read_text()), SCHEMA)


@pytest.mark.spec("OBS-046", "OBS-047", "API-246", "OBS-075")
async def test_a_page_has_the_newest_lines(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        assert await page(harness) == {"contract_version": "1.0", "lines": [], "newest": 0, "lost": 0}
        note(harness, 600)
        note(harness, source="req", msg=f"{ID} client=curl", level="WARNING")
        newest = await page(harness)
        assert [line["seq"] for line in newest["lines"]] == list(range(102, 602))
        assert (newest["newest"], newest["lost"]) == (601, 0)
        assert newest["lines"][-1] == {
            "seq": 601,
            "ts": 1.5,
            "level": "WARNING",
            "source": "req",
            "msg": f"{ID} client=curl",
            "request_id": ID,
        }
        assert [line["seq"] for line in (await page(harness, "?limit=3"))["lines"]] == [599, 600, 601]
        assert [line["seq"] for line in (await page(harness, "?since=10&limit=2"))["lines"]] == [11, 12]
        assert (await page(harness, "?since=601"))["lines"] == []


@pytest.mark.spec("OBS-046")
async def test_old_lines_are_lost_and_counted(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        note(harness, LINES_KEPT + 7)
        since = await page(harness, "?since=2&limit=5000")
        assert (since["lost"], since["lines"][0]["seq"], len(since["lines"])) == (5, 8, LINES_KEPT)
        assert (await page(harness, "?since=9999"))["lines"][-1]["seq"] == LINES_KEPT + 7


@pytest.mark.spec("OBS-047")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("level=warning", [2, 3]),
        ("level=ERROR", [3]),
        ("source=stderr", [2]),
        (f"request_id={ID}", [4]),
        ("text=TWO", [2]),
        ("level=INFO&source=req", [4]),
        ("text=one&level=CRITICAL", []),
    ],
)
async def test_filters(autojump_clock: Clock, query: str, expected: list[int]) -> None:
    async with open_harness() as harness:
        note(harness, msg="one")
        note(harness, msg="part Two", level="WARNING", source="stderr")
        note(harness, level="ERROR")
        note(harness, msg=f"{ID} x", source="req")
        assert [line["seq"] for line in (await page(harness, f"?{query}"))["lines"]] == expected
        call = harness.client.start(f"{LOGS}?follow=1&{query}")
        await rest()
        note(harness, msg="part Two", level="CRITICAL", source="stderr")
        await rest()
        also = [5] if query in ("level=warning", "level=ERROR", "source=stderr", "text=TWO") else []
        assert seqs(call) == expected + also


@pytest.mark.spec("OBS-101")
@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("nothing=1", "nothing"),
        ("follow=2", "follow"),
        ("follow=1&follow=1", "follow"),
        ("since=-1", "since"),
        ("since=1e3", "since"),
        ("since=99999999999999999999", "since"),
        ("limit=0", "limit"),
        ("limit=5001", "limit"),
        ("level=loud", "level"),
        ("text=" + "x" * 201, "text"),
    ],
)
async def test_bad_parameters(autojump_clock: Clock, query: str, param: str) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(f"{LOGS}?{query}")
        assert (call.status, call.json["error"]["param"]) == (400, param)
        socket = harness.client.connect(f"{LOGS}?{query}")
        await socket.finished.wait()
        assert (socket.status, socket.json["error"]["param"]) == (400, param)
        assert harness.service.context.readers.count("log") == 0


async def test_a_bad_last_event_id(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(f"{LOGS}?follow=1", headers={"last-event-id": "soon"})
        assert (call.status, call.json["error"]["param"]) == (400, "Last-Event-ID")


@pytest.mark.spec("OBS-047", "API-246")
async def test_a_stream_goes_on_as_lines_come(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        note(harness, 3)
        call = harness.client.start(f"{LOGS}?follow=1&limit=2")
        await call.wait_for_piece(2)
        assert call.headers["content-type"].startswith("text/event-stream")
        assert (call.headers["cache-control"], call.headers["x-accel-buffering"]) == ("no-store", "no")
        assert call.events[0].comment == "ping"
        assert seqs(call) == [2, 3]
        note(harness, 2)
        await rest()
        assert seqs(call) == [2, 3, 4, 5]
        for kind, seq, line in told(call):
            assert (kind, seq) == ("log", str(line["seq"]))
            jsonschema.validate(line, LINE)


@pytest.mark.spec("OBS-047", "API-246")
@pytest.mark.parametrize(
    ("query", "headers", "first"),
    [
        ("since=2", {}, 3),
        ("", {"last-event-id": "3"}, 4),
        ("since=1", {"last-event-id": "3"}, 4),
        ("since=0", {}, 1),
        ("since=900", {}, 1),
        ("", {"last-event-id": "900"}, 1),
        ("", {}, 1),
    ],
)
async def test_it_resumes(autojump_clock: Clock, query: str, headers: dict[str, str], first: int) -> None:
    """A number above the newest is from before a restart."""
    async with open_harness() as harness:
        note(harness, 5)
        call = harness.client.start(f"{LOGS}?follow=1&{query}", headers=headers)
        socket = harness.client.connect(f"{LOGS}?{query}", headers=headers)
        await rest()
        assert seqs(call) == list(range(first, 6))
        assert [line["seq"] for line in socket.of("log")] == list(range(first, 6))


@pytest.mark.spec("OBS-047", "API-246")
async def test_pings(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        call = harness.client.start(f"{LOGS}?follow=1")
        await call.wait_for_piece()
        begun = trio.current_time()
        await trio.sleep(20)
        note(harness)
        await trio.sleep(41)
        assert [at - begun for at, comment in call.comments if comment == "ping"] == pytest.approx([0, 15, 30, 45, 60])


@pytest.mark.spec("OBS-047", "OBS-056", "API-247")
async def test_the_three_ways_say_the_same(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        note(harness, MOST * 2 + 1)
        call = harness.client.start(f"{LOGS}?follow=1&since=0")
        socket = harness.client.connect(f"{LOGS}?since=0")
        await rest()
        lines = (await page(harness, "?since=0"))["lines"]
        assert [event.data for event in call.events if event.kind == "log"] == lines
        assert socket.of("log") == lines
        assert [message["seq"] for _, message in socket.messages] == [line["seq"] for line in lines]
        assert list(socket.messages[0][1]) == ["type", "seq", "data"]


@pytest.mark.spec("OBS-047", "API-246")
async def test_a_slow_reader_is_told_what_it_missed(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        socket = harness.client.connect(LOGS)
        await rest()
        note(harness, 1)
        socket.stall()
        await rest()
        note(harness, LINES_KEPT + 40)
        socket.resume()
        await rest()
        gaps = [message for _, message in socket.messages if message["type"] == "gap"]
        assert gaps == [{"type": "gap", "seq": 41, "data": {"dropped": 40}}]
        assert [line["seq"] for line in socket.of("log")] == [1, *range(42, LINES_KEPT + 42)]
        resumed = harness.client.start(f"{LOGS}?follow=1&since=1")
        await resumed.wait_for_piece(2)
        assert told(resumed)[0] == ("gap", "41", {"dropped": 40})
        assert told(resumed)[1][1] == "42"


@pytest.mark.spec("API-247", "OBS-047")
async def test_four_readers_at_most(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        count = harness.service.context.readers.count
        calls = [harness.client.start(f"{LOGS}?follow=1") for _ in range(2)]
        sockets = [harness.client.connect(LOGS) for _ in range(MAX_READERS - 2)]
        await rest()
        assert count("log") == MAX_READERS
        refused = await harness.client.send(f"{LOGS}?follow=1")
        assert (refused.status, refused.headers["retry-after"]) == (429, "5")
        assert refused.json["error"]["type"] == "rate_limited"
        socket = harness.client.connect(LOGS)
        await socket.finished.wait()
        assert (socket.status, socket.headers["retry-after"], socket.accepted) == (429, "5", False)
        assert socket.json == refused.json
        plain = harness.client.connect(LOGS, can_refuse=False)
        await plain.finished.wait()
        assert (plain.accepted, plain.messages) == (False, [])
        assert (await page(harness))["lines"] == []
        for each in (calls[0], sockets[0]):
            each.leave()
            with trio.fail_after(1):
                await each.finished.wait()
        assert count("log") == MAX_READERS - 2
        harness.client.connect(LOGS)
        await rest()
        assert count("log") == MAX_READERS - 1


@pytest.mark.spec("API-247")
async def test_a_reader_that_leaves_while_it_is_sent_to_is_freed(autojump_clock: Clock) -> None:
    """A stream is then parked at its `yield`, and sees `GeneratorExit`."""
    async with open_harness() as harness:
        readers: list[Call | Socket] = [harness.client.start(f"{LOGS}?follow=1"), harness.client.connect(LOGS)]
        await rest()
        for reader in readers:
            reader.stall()
        note(harness)
        await rest()
        assert harness.service.context.readers.count("log") == 2
        for reader in readers:
            reader.leave()
            with trio.fail_after(1):
                await reader.finished.wait()
        assert harness.service.context.readers.count("log") == 0


async def test_a_head_ends_at_once(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(f"{LOGS}?follow=1", method="HEAD")
        assert (call.status, call.body) == (200, b"")
        assert call.headers["content-type"].startswith("text/event-stream")
        assert harness.service.context.readers.count("log") == 0


async def test_what_a_peer_says_is_dropped(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        socket = harness.client.connect(LOGS)
        for number in range(50):
            socket.say(f"message {number}")
        await rest()
        note(harness)
        await rest()
        assert len(socket.of("log")) == 1
        socket.leave()
        with trio.fail_after(1):
            await socket.finished.wait()


@pytest.mark.spec("OBS-057")
async def test_a_drain_sends_the_readers_away(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        note(harness, 2)
        call, socket = harness.client.start(f"{LOGS}?follow=1"), harness.client.connect(LOGS)
        await rest()
        begun = trio.current_time()
        await drain(harness.service.context)
        await call.finished.wait()
        await socket.finished.wait()
        assert trio.current_time() == begun
        assert told(call)[-1] == ("bye", "2", {"reason": "draining"})
        assert socket.messages[-1][1] == {"type": "bye", "seq": 2, "data": {"reason": "draining"}}
        assert socket.code == 1001
        late = await harness.client.send(f"{LOGS}?follow=1")
        assert told(late) == [("bye", "0", {"reason": "draining"})]


@pytest.mark.spec("OBS-057")
async def test_a_drain_waits_for_no_reader(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        stalled: list[Call | Socket] = [harness.client.start(f"{LOGS}?follow=1"), harness.client.connect(LOGS)]
        await rest()
        for reader in stalled:
            reader.stall()
        note(harness)
        await rest()
        begun = trio.current_time()
        await drain(harness.service.context)
        assert trio.current_time() == begun


@asynccontextmanager
async def signed_in() -> Any:
    """A service that asks for the login, and the cookie of a session of 100 s."""
    async with open_harness(secrets=Secrets(admin_token=PASSWORD), dashboard_login=True, session_s=100.0) as harness:
        call = await harness.client.send("/v1/dashboard/session", {"token": PASSWORD}, peer=REMOTE)
        yield harness, {"cookie": call.headers["set-cookie"].partition(";")[0]}


@pytest.mark.spec("OBS-058")
async def test_a_feed_ends_with_the_session(autojump_clock: Clock) -> None:
    async with signed_in() as (harness, cookie):
        await trio.sleep(40)
        begun = trio.current_time()
        call = harness.client.start(f"{LOGS}?follow=1", headers=cookie, peer=REMOTE)
        socket = harness.client.connect(LOGS, headers=cookie, peer=REMOTE)
        await call.finished.wait()
        await socket.finished.wait()
        assert trio.current_time() - begun == pytest.approx(60, abs=1)
        assert told(call) == [("bye", "0", {"reason": "session"})]
        assert [message for _, message in socket.messages] == [{"type": "bye", "seq": 0, "data": {"reason": "session"}}]
        assert socket.code == 4401
        again = harness.client.connect(LOGS, headers=cookie, peer=REMOTE)
        await again.finished.wait()
        assert (again.status, again.accepted) == (401, False)


@pytest.mark.spec("OBS-058")
@pytest.mark.parametrize(
    ("peer", "headers"),
    [("127.0.0.1", {}), (REMOTE, {"authorization": f"Bearer {PASSWORD}"})],
)
async def test_no_feed_ends_that_needs_no_session(autojump_clock: Clock, peer: str, headers: dict[str, str]) -> None:
    async with signed_in() as (harness, cookie):
        socket = harness.client.connect(LOGS, headers=cookie | headers, peer=peer)
        await trio.sleep(200)
        assert not socket.finished.is_set()


@pytest.mark.spec("OBS-058", "API-247")
@pytest.mark.parametrize("path", [LOGS, "/v1/dashboard/live"])
async def test_a_foreign_page_gets_no_websocket(autojump_clock: Clock, path: str) -> None:
    async with open_harness() as harness:
        foreign = harness.client.connect(path, headers={"origin": "http://evil.example"})
        await foreign.finished.wait()
        assert (foreign.status, foreign.json["error"]["param"]) == (403, "Origin")
        own = harness.client.connect(LOGS, headers={"origin": "http://127.0.0.1:8000"})
        await rest()
        assert own.accepted


async def test_other_paths_are_no_websockets(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        for path, status in (("/nothing", 404), ("/v1/models", 400)):
            socket = harness.client.connect(path)
            await socket.finished.wait()
            assert (socket.status, socket.accepted) == (status, False)
            assert socket.json["error"]["status"] == status


@contextmanager
def logged() -> Iterator[Sequence[logging.LogRecord]]:
    records: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keeper()
    logging.getLogger("tandem").addHandler(handler)
    try:
        yield records
    finally:
        logging.getLogger("tandem").removeHandler(handler)


async def test_a_crash_ends_one_websocket_and_is_logged(autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_harness() as harness:

        def fail(*_: Any) -> None:
            raise LookupError("broken")

        socket, other = harness.client.connect(LOGS), harness.client.connect(LOGS)
        await rest()
        other.leave()
        await other.finished.wait()
        with logged() as records:
            monkeypatch.setattr(harness.service.context.logs, "after", fail)
            note(harness)
            await socket.finished.wait()
        assert socket.code == 1011
        assert [record.getMessage() for record in records] == ["[http] a feed failed"]
        assert harness.service.context.readers.count("log") == 0
        monkeypatch.undo()
        assert (await page(harness))["newest"] == 1
