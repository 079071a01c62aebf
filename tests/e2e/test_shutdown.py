"""SIGTERM and SIGINT: what runs is answered, what waits is refused, the process ends (HTTP API section 23)."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import ExitStack, closing

import pytest

from tests.e2e.conftest import Start
from tests.e2e.wire import CHAT, Connection, Reply, chat, health, post, until

TEN = {"say": "one two three four five six seven eight nine ten", "token_ms": 120}
ENDLESS = {"say": "la ", "loop": True, "token_ms": 50}
SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


def assert_draining(reply: Reply) -> None:
    assert reply.status == 503
    assert reply.headers["retry-after"] == "30"
    assert reply.json["error"]["code"] == "draining"


@pytest.mark.spec("API-202", "SCH-092")
@SIGNALS
def test_an_idle_server_ends_at_once(start: Start, number: signal.Signals) -> None:
    server = start()
    with Connection(server.port) as idle:
        assert idle.ask("GET", "/health").status == 200
        begun = time.monotonic()
        server.signal(number)
        assert server.wait_exit() == 0
        assert time.monotonic() - begun < 4.5  # an idle connection that holds it up does for five seconds
        assert idle.is_closed_by_server()


@pytest.mark.spec("API-202", "API-203", "API-204", "SCH-092", "SCH-093", "OBS-016")
@SIGNALS
def test_a_stream_ends_whole(start: Start, number: signal.Signals) -> None:
    server = start("--usage-ledger", "usage/ledger.sqlite3")
    with Connection(server.port) as client, Connection(server.port) as waiting:
        client.send("POST", CHAT, chat(TEN, stream=True))
        reply = client.head()
        pieces = client.pieces()
        reply.pieces += [next(pieces), next(pieces)]
        waiting.send("POST", CHAT, chat({"say": "never"}))
        until(lambda: health(server.port)["inflight"]["waiting"] == 1)
        server.signal(number)
        assert_draining(waiting.reply())
        with Connection(server.port) as other:
            seen = other.ask("GET", "/health")
            assert (seen.status, seen.json["status"]) == (503, "draining")
            assert_draining(other.ask("POST", CHAT, chat({"say": "late"})))
            assert_draining(other.ask("POST", CHAT, chat({"say": "late"}, stream=True)))
        assert server.process.poll() is None
        reply.pieces += pieces
        reply.body = b"".join(piece for _, piece in reply.pieces)
        assert reply.text == TEN["say"]
        assert (reply.finish, reply.is_done) == ("stop", True)
    assert server.wait_exit() == 0
    with closing(sqlite3.connect(server.home / "state/usage/ledger.sqlite3")) as ledger:
        rows = ledger.execute("SELECT status, finish_reason, stream FROM requests ORDER BY rowid").fetchall()
    assert sorted(rows) == [(200, "stop", 1), (503, "refused", 0), (503, "refused", 0), (503, "refused", 1)]


@pytest.mark.spec("API-202")
def test_a_json_answer_ends_whole(start: Start) -> None:
    server = start()
    with Connection(server.port) as client:
        client.send("POST", CHAT, chat(TEN))
        until(lambda: health(server.port)["inflight"]["running"] == 1)
        server.signal(signal.SIGTERM)
        assert client.reply().text == TEN["say"]
    assert server.wait_exit() == 0


@pytest.mark.spec("API-202", "API-204")
def test_many_connections_do_not_hold_it_up(start: Start) -> None:
    """Eight streams, seven of them in the queue, and clients that keep their connection and do nothing."""
    server = start()
    with ExitStack() as stack:
        idle = [stack.enter_context(Connection(server.port)) for _ in range(4)]
        for client in idle[:2]:
            client.ask("GET", "/v1/models")
        streams = [stack.enter_context(Connection(server.port)) for _ in range(8)]
        for client in streams:
            client.send("POST", CHAT, chat({"say": "a b c d e", "token_ms": 200}, stream=True))
        until(lambda: health(server.port)["inflight"]["waiting"] == 7)
        begun = time.monotonic()
        server.signal(signal.SIGTERM)
        replies = [client.reply() for client in streams]
        assert server.wait_exit() == 0
        assert time.monotonic() - begun < 5.5  # a second is the stream's; what holds it up does for five more
        served = [reply for reply in replies if reply.status == 200]
        assert [(reply.text, reply.is_done) for reply in served] == [("a b c d e", True)]
        for reply in replies:
            if reply.status != 200:
                assert_draining(reply)
        assert all(client.is_closed_by_server() for client in idle)


def test_a_second_signal_ends_what_runs(start: Start) -> None:
    server = start()
    with Connection(server.port) as client:
        client.send("POST", CHAT, chat(ENDLESS, stream=True))
        reply = client.head()
        pieces = client.pieces()
        reply.pieces.append(next(pieces))
        server.signal(signal.SIGTERM)
        until(lambda: health(server.port)["status"] == "draining")
        begun = time.monotonic()
        server.signal(signal.SIGTERM)
        reply.pieces += pieces
        assert time.monotonic() - begun < 10
        reply.body = b"".join(piece for _, piece in reply.pieces)
        assert (reply.finish, reply.is_done) == ("error", True)
    assert server.wait_exit() == 0


@pytest.mark.spec("API-202", "API-167")
def test_a_client_that_leaves_during_the_drain_ends_it(start: Start) -> None:
    server = start()
    with Connection(server.port) as client:
        client.send("POST", CHAT, chat(ENDLESS, stream=True))
        client.head()
        server.signal(signal.SIGTERM)
        until(lambda: health(server.port)["status"] == "draining")
    assert server.wait_exit(5) == 0
    assert [line["finish"] for line in server.request_lines()] == ["abandoned"]


def test_the_port_is_free_again_and_requests_before_the_end_are_in_the_log(start: Start) -> None:
    server = start()
    assert post(server.port, chat({"say": "hi"})).text == "hi"
    assert server.stop() == 0
    assert [line["finish"] for line in server.request_lines()] == ["stop"]
    again = start("--port", str(server.port))
    assert again.port == server.port
