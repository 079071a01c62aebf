"""Feeds over real sockets: websockets of trio-websocket, event streams, readers that leave or fall silent, drains."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import time
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, open_websocket_url, wrap_client_stream

from tandem.http import connection
from tandem.logbook import LogBook
from tests.e2e.conftest import Start
from tests.e2e.inside import Inside, open_inside
from tests.e2e.process import Server
from tests.e2e.wire import Connection, chat, health, post, until

LOGS, LIVE = "/v1/dashboard/logs", "/v1/dashboard/live"
MOST = 4
"""Readers of the log at once."""


def ask(port: int, path: str) -> Any:
    with Connection(port) as client:
        reply = client.ask("GET", path)
        assert reply.status == 200, reply.body
        return reply.json


def watch(port: int, path: str) -> tuple[Connection, Any]:
    """An event stream, and its pieces."""
    client = Connection(port)
    client.send("GET", path)
    reply = client.head()
    assert reply.status == 200
    return client, client.pieces()


def events(piece: bytes) -> list[tuple[str, int, Any]]:
    found = []
    for block in piece.decode().split("\n\n"):
        if block and not block.startswith(":"):
            kind, seq, data = (line.split(": ", 1)[1] for line in block.split("\n"))
            found.append((kind, int(seq), json.loads(data)))
    return found


def offer(port: int, path: str) -> Connection:
    """A client that asks for a websocket."""
    client = Connection(port)
    key = base64.b64encode(os.urandom(16)).decode()
    client.send_raw(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Extensions: permessage-deflate\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    return client


def upgrade(port: int, path: str) -> Connection:
    """A websocket by hand, whose peer says nothing by itself."""
    client = offer(port, path)
    assert client._file.readline().split()[1] == b"101"
    while (line := client._file.readline()) != b"\r\n":
        assert not line.lower().startswith(b"sec-websocket-extensions")  # compressed once a reader would cost too much
    return client


async def message(peer: WebSocketConnection) -> Any:
    with trio.fail_after(10):
        return json.loads(await peer.get_message())


def url(server: Server | Inside, path: str) -> str:
    return f"ws://127.0.0.1:{server.port}{path}"


@pytest.mark.spec("OBS-047", "OBS-056", "API-246", "API-247")
async def test_the_log_is_the_same_three_ways(fake: Server) -> None:
    answered = post(fake.port, chat({"say": "hello"})).json["id"]
    until(lambda: ask(fake.port, f"{LOGS}?request_id={answered}")["lines"])
    page = ask(fake.port, f"{LOGS}?request_id={answered}")["lines"]
    assert [line["source"] for line in page] == ["req"]
    client, pieces = watch(fake.port, f"{LOGS}?follow=1&request_id={answered}")
    with client:
        assert next(pieces)[1] == b": ping\n\n"
        assert events(next(pieces)[1]) == [("log", line["seq"], line) for line in page]
    async with open_websocket_url(url(fake, f"{LOGS}?request_id={answered}")) as peer:
        assert await message(peer) == {"type": "log", "seq": page[0]["seq"], "data": page[0]}
    printed = ask(fake.port, f"{LOGS}?source=stdout&limit=5000")["lines"]
    assert any(line["msg"].startswith("Tandem serves ") for line in printed)


@pytest.mark.spec("API-247")
async def test_readers_that_left_are_freed(start: Start) -> None:
    """However they left: by a close frame, a FIN or a RST."""
    server = start()

    def is_full() -> bool:
        with Connection(server.port) as client:
            client.send("GET", f"{LOGS}?follow=1")
            return client.head().status == 429

    for how in ("close", "reset"):
        readers = [watch(server.port, f"{LOGS}?follow=1")[0] for _ in range(2)]
        readers += [upgrade(server.port, LOGS) for _ in range(MOST - 2)]
        assert is_full()
        with offer(server.port, LOGS) as refused:
            reply = refused.reply()
        assert (reply.status, reply.headers["retry-after"], reply.json["error"]["type"]) == (429, "5", "rate_limited")
        for reader in readers:
            getattr(reader, how)()
        until(lambda: not is_full(), timeout_s=1)
    async with AsyncExitStack() as stack:
        for _ in range(MOST):
            await stack.enter_async_context(open_websocket_url(url(server, LOGS)))
    until(lambda: not is_full(), timeout_s=1)
    assert "Traceback" not in server.log


@pytest.mark.spec("OBS-057")
async def test_a_drain_is_not_held_up_by_watchers(start: Start) -> None:
    server = start()
    with ExitStack() as stack:
        streams = [watch(server.port, f"{LIVE}?follow=1") for _ in range(9)]
        streams += [watch(server.port, f"{LOGS}?follow=1")]
        for client, pieces in streams:
            stack.enter_context(client)
            next(pieces)
        silent = [stack.enter_context(upgrade(server.port, LIVE)) for _ in range(9)]
        # The library's own connection stays open, unseen, where the server closes first.
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as tcp, trio.open_nursery() as nursery:
            peer = await wrap_client_stream(nursery, tcp, "127.0.0.1", LOGS)
            await message(peer)
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            while (said := await message(peer))["type"] != "bye":
                pass
            assert said["data"] == {"reason": "draining"}
            with pytest.raises(ConnectionClosed) as closed:
                await message(peer)
            assert closed.value.reason is not None
            assert closed.value.reason.code == 1001
        assert server.wait_exit() == 0
        assert time.monotonic() - begun < 4.5  # what holds it up does for five seconds
        for _, pieces in streams:
            last = b"".join(piece for _, piece in pieces)
            assert [(kind, data) for kind, _, data in events(last)][-1] == ("bye", {"reason": "draining"})
        assert all(client.is_closed_by_server() for client in silent)
    assert "Traceback" not in server.log


@pytest.mark.spec("OBS-057")
def test_a_silent_peer_is_pinged_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings are Hypercorn's; its own tests show that they go on."""
    monkeypatch.setattr(connection, "SILENCE_S", 0.3)
    with open_inside(hypercorn_options={"websocket_ping_interval": 0.05}) as server:
        count = server.harness.service.context.readers.count
        with upgrade(server.port, LOGS) as silent:
            assert silent._file.read(4) == b"\x89\x00" * 2
            assert silent.is_closed_by_server()
            until(lambda: count("log") == 0)
        trio.run(_answer_pings, url(server, LOGS))


async def _answer_pings(address: str) -> None:
    async with open_websocket_url(address) as peer:
        with trio.move_on_after(1):
            await peer.get_message()
        assert peer.closed is None


@pytest.mark.spec("OBS-057", "OBS-061")
def test_a_peer_that_reads_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server then stands in the middle of a write."""
    monkeypatch.setattr(connection, "SILENCE_S", 0.5)
    with open_inside() as server:
        context = server.harness.service.context
        with upgrade(server.port, LOGS) as stalled:
            stalled.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            until(lambda: context.readers.count("log") == 1)
            flood(context.logs)
            until(lambda: context.readers.count("log") == 0)


@pytest.mark.spec("OBS-057")
def test_a_peer_that_reads_nothing_holds_up_no_shutdown() -> None:
    """Hypercorn gives it its grace; the kernel would give it a minute."""
    with open_inside(hypercorn_options={"graceful_timeout": 0.3}) as server, ExitStack() as stack:
        context = server.harness.service.context
        stack.enter_context(upgrade(server.port, LOGS))
        stack.enter_context(watch(server.port, f"{LOGS}?follow=1")[0])
        until(lambda: context.readers.count("log") == 2)
        flood(context.logs)
        server.stop()
        assert server.ended.wait(10)


def flood(book: LogBook) -> None:
    """More than the buffers of a connection hold."""
    for _ in range(2000):
        book.note(0.0, "INFO", "x", "y" * 8000)


def test_a_long_message_closes_a_websocket(fake: Server) -> None:
    with upgrade(fake.port, LOGS) as peer:
        peer.send_raw(b"\x82\xff" + (80_000).to_bytes(8, "big") + b"\x00" * 4 + b"x" * 80_000)
        said = b""
        while not said.endswith(b"\x88\x02\x03\xf1"):  # 1009
            said += peer._file.read(1)
    assert health(fake.port)["status"] == "ok"
