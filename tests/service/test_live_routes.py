"""/v1/dashboard/live: as JSON, as server-sent events and over a websocket (OBS-056 to OBS-061, API-244, API-247)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio
import trio.testing

import tandem
from tandem.actors.live import Live
from tandem.draining import drain
from tests.service.harness import Call, Harness, Socket, chat, open_harness

LIVE = "/v1/dashboard/live"
SCHEMA = json.loads((Path(tandem.__file__).parent / "contract/live.schema.json").read_text())
BUSY = {"say": "la ", "loop": True, "token_ms": 50}

Clock = trio.testing.MockClock


def told(call: Call) -> list[Any]:
    return [event for event in call.events if event.comment is None]


def without_cost(document: Any) -> Any:
    """What depends on the clock of the processor differs."""
    return {name: value for name, value in document.items() if name not in ("sampler", "seq")}


async def look(harness: Harness) -> Any:
    call = await harness.client.send(f"{LIVE}?follow=0")
    assert (call.status, call.headers["content-type"]) == (200, "application/json")
    assert call.headers["cache-control"] == "no-store"
    jsonschema.validate(call.json, SCHEMA)
    return call.json


@pytest.mark.spec("OBS-056", "OBS-059", "API-244", "API-247")
async def test_the_three_ways_say_the_same(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        harness.client.start("/v1/chat/completions", chat(BUSY, stream=True))
        await trio.sleep(3)
        call = harness.client.start(f"{LIVE}?follow=1")
        socket = harness.client.connect(LIVE)
        await call.wait_for_piece(2)
        await socket.wait_for()
        page = await look(harness)
        first = told(call)[0]
        assert (first.kind, int(first.id or 0)) == ("live", first.data["seq"])
        kind, seq, data = socket.messages[0][1].values()
        assert (kind, seq) == ("live", data["seq"])
        assert without_cost(data) == without_cost(first.data) == without_cost(page)
        assert data["history"]
        await trio.sleep(1)
        later = told(call)[1:]
        assert [event.data for event in later] == socket.of("live")[1:]
        assert [int(event.id or 0) for event in later] == [message["seq"] for _, message in socket.messages[1:]]
        for event in later:
            jsonschema.validate(event.data, SCHEMA)


@pytest.mark.spec("API-244", "OBS-057")
async def test_the_stream_begins_at_once_and_pings(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        begun = trio.current_time()
        call = harness.client.start(f"{LIVE}?follow=1")
        await call.wait_for_piece(2)
        assert trio.current_time() == begun
        assert call.headers["content-type"].startswith("text/event-stream")
        assert (call.headers["cache-control"], call.headers["x-accel-buffering"]) == ("no-store", "no")
        await trio.sleep(46)
        assert [at - begun for at, _ in call.comments] == pytest.approx([0, 15, 30, 45], abs=0.5)


@pytest.mark.spec("OBS-059")
async def test_a_reader_that_comes_again_gets_a_fresh_event(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        call = harness.client.start(f"{LIVE}?follow=1", headers={"last-event-id": "3"})
        await call.wait_for_piece(2)
        first = told(call)[0]
        assert first.kind == "live"
        assert "history" in first.data


@pytest.mark.spec("OBS-061")
async def test_a_slow_reader_gets_the_newest_event_and_a_gap(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        slow, other = harness.client.connect(LIVE), harness.client.connect(LIVE)
        await slow.wait_for()
        slow.stall()
        await trio.sleep(59.5)
        seqs = [message["seq"] for _, message in other.messages]
        slow.resume()
        await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        kinds = [message["type"] for _, message in slow.messages]
        assert kinds == ["live", "live", "gap", "live"]
        _, stuck, gap, newest = (message for _, message in slow.messages)
        assert newest["seq"] == seqs[-1]
        assert gap["seq"] == newest["seq"] - 1
        assert gap["data"]["dropped"] == newest["seq"] - stuck["seq"] - 1


@pytest.mark.spec("OBS-061", "API-247")
async def test_so_many_readers_and_no_more(autojump_clock: Clock) -> None:
    async with open_harness(live_max_readers=4) as harness:
        count = harness.service.context.readers.count
        readers: list[Call | Socket] = [harness.client.start(f"{LIVE}?follow=1") for _ in range(2)]
        readers += [harness.client.connect(LIVE) for _ in range(2)]
        await trio.sleep(1)
        assert count("live") == 4
        refused = await harness.client.send(f"{LIVE}?follow=1")
        assert (refused.status, refused.headers["retry-after"]) == (429, "5")
        socket = harness.client.connect(LIVE)
        await socket.finished.wait()
        assert (socket.status, socket.headers["retry-after"]) == (429, "5")
        await look(harness)
        for reader in readers:
            reader.leave()
            with trio.fail_after(1):
                await reader.finished.wait()
        assert count("live") == 0
        again = harness.client.connect(LIVE)
        await again.wait_for()
        assert again.accepted
        assert count("live") == 1


@pytest.mark.spec("OBS-057")
async def test_a_drain_is_watched_to_its_end(autojump_clock: Clock) -> None:
    async with open_harness() as harness:
        answer = harness.client.start("/v1/chat/completions", chat({"say": "a b c d", "token_ms": 1000}, stream=True))
        call, socket = harness.client.start(f"{LIVE}?follow=1"), harness.client.connect(LIVE)
        await answer.wait_for_piece()
        await drain(harness.service.context)
        assert answer.is_done
        await call.finished.wait()
        await socket.finished.wait()
        assert (told(call)[-1].kind, told(call)[-1].data) == ("bye", {"reason": "draining"})
        assert socket.messages[-1][1]["type"] == "bye"
        assert socket.code == 1001
        assert "draining" in {message["data"]["engine"]["state"] for _, message in socket.messages[:-1]}


async def test_a_failed_hub_ends_the_feeds(autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_harness() as harness:
        call, socket = harness.client.start(f"{LIVE}?follow=1"), harness.client.connect(LIVE)
        await socket.wait_for()

        def fail(*_: object) -> None:
            raise LookupError

        monkeypatch.setattr(Live, "_tick", fail)
        monkeypatch.setattr(Live, "_take", fail)
        await call.finished.wait()
        await socket.finished.wait()
        assert told(call)[-1].data == {"reason": "off"}
        assert (socket.of("bye"), socket.code) == ([{"reason": "off"}], 1011)
        while "live" not in harness.service.context.switched_off:
            await harness.client.send(LIVE)
        for query in ("", "?follow=1"):
            refused = await harness.client.send(LIVE + query)
            assert refused.status == 503
        assert harness.service.context.readers.count("live") == 0


@pytest.mark.spec("OBS-101")
@pytest.mark.parametrize(("query", "param"), [("since=3", "since"), ("follow=yes", "follow")])
async def test_bad_parameters(autojump_clock: Clock, query: str, param: str) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(f"{LIVE}?{query}")
        assert (call.status, call.json["error"]["param"]) == (400, param)


@pytest.mark.spec("API-247")
async def test_open_feeds_change_no_token(autojump_clock: Clock) -> None:
    async with open_harness() as harness:

        async def answer() -> tuple[str, str | None]:
            call = await harness.client.send("/v1/chat/completions", chat("Tell me.", stream=True, seed=1))
            return call.text, call.finish

        alone = await answer()
        for path in (LIVE, "/v1/dashboard/logs"):
            harness.client.start(f"{path}?follow=1")
            harness.client.connect(path)
        await trio.sleep(2)
        assert await answer() == alone
