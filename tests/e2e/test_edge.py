"""What running on Hypercorn's trio worker costs, and its cures (style.md, section 6.3): one test for each."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import pytest

from tandem import serve
from tandem.config import Settings
from tandem.http.app import create_app
from tandem.http.context import BodyBudget
from tandem.http.limits import hypercorn_config
from tests.e2e.conftest import Start
from tests.e2e.inside import open_inside
from tests.e2e.process import Server
from tests.e2e.wire import CHAT, Connection, chat, health, post, until
from tests.service.harness import Harness

SLOW = {"say": "one two three four five", "token_ms": 150}
ENDLESS = {"say": "la ", "loop": True, "token_ms": 20}
TORRENT = {"say": "la " * 40, "loop": True, "block": 32}
"""As much text as the engine can make."""


def test_an_idle_connection_ends_after_the_keep_alive_timeout() -> None:
    with open_inside(hypercorn_options={"keep_alive_timeout": 0.3}) as server, Connection(server.port) as client:
        assert client.ask("POST", CHAT, chat({"say": "hi"})).text == "hi"
        start = time.monotonic()
        assert client.is_closed_by_server()
        assert 0.2 < time.monotonic() - start < 4  # Hypercorn's own are five seconds


def test_an_idle_connection_does_not_hold_up_a_shutdown() -> None:
    with open_inside(hypercorn_options={"graceful_timeout": 20}) as server, Connection(server.port) as client:
        for _ in range(3):
            assert client.ask("POST", CHAT, chat({"say": "hi"}, stream=True)).is_done
        start = time.monotonic()
        server.stop()
        assert server.ended.wait(15)
        assert time.monotonic() - start < 15


@pytest.mark.spec("API-004")
def test_the_request_after_a_413_is_answered_every_time() -> None:
    large = b'{"messages": [{"role": "user", "content": "' + b"x" * 1_100_000 + b'"}]}'
    with open_inside(max_body_mb=1) as server:
        for _ in range(20):
            with Connection(server.port, timeout_s=5) as client:
                refused = client.ask("POST", CHAT, large)
                assert refused.status == 413
                assert refused.json["error"]["status"] == 413
                assert client.ask("POST", CHAT, chat({"say": "hi"})).text == "hi"
        until(lambda: len(server.harness.outcomes) == 40)
        assert [outcome.status for outcome in server.harness.outcomes] == [413, 200] * 20


def test_the_rest_of_an_unwanted_body_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.http.edge.REST_SILENCE_S", 0.2)
    with open_inside(max_body_mb=1) as server, Connection(server.port) as client:
        client.send("POST", CHAT, b"{", {"Content-Length": "2000000"})
        assert client.reply().status == 413
        assert client.is_closed_by_server()


@pytest.mark.spec("API-136", "API-139")
def test_each_event_goes_out_at_once_in_a_chunk_of_its_own(fake: Server) -> None:
    reply = post(fake.port, chat(SLOW, stream=True))
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-accel-buffering"] == "no"
    assert [piece.count(b"data: ") for _, piece in reply.pieces] == [2, 1, 1, 1, 1, 2]  # with role, with [DONE]
    times = [at for at, _ in reply.pieces]
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps) > 0.05
    assert reply.text == "one two three four five"


def test_a_stream_may_last_longer_than_quarts_timeout() -> None:
    with open_inside() as server:
        config = create_app(server.harness.service.context).config
        assert config["RESPONSE_TIMEOUT"] is None
    assert hypercorn_config().read_timeout is None


def test_a_pipelined_request_is_answered_after_the_stream_before_it(fake: Server) -> None:
    with Connection(fake.port) as client:
        client.send("POST", CHAT, chat({"say": "first one", "token_ms": 50}, stream=True))
        client.send("POST", CHAT, chat({"say": "second"}))
        assert client.reply().text == "first one"
        assert client.reply().text == "second"


@pytest.mark.spec("API-167", "API-168")
def test_a_client_that_leaves_with_a_request_in_the_pipe_is_noticed() -> None:
    with open_inside(hypercorn_options={"graceful_timeout": 20}) as server:
        client = Connection(server.port)
        client.send("POST", CHAT, chat(ENDLESS, stream=True))
        client.send("POST", CHAT, chat({"say": "never"}))
        client.head()
        client.reset()
        assert until(lambda: health(server.port)["inflight"]["running"] == 0) < 1
        until(lambda: [outcome.finish_reason for outcome in server.harness.outcomes] == ["abandoned"])
        server.stop()
        assert server.ended.wait(5), "its connection holds up the shutdown"


def test_a_connection_is_forgotten_when_its_client_has_closed_it() -> None:
    with open_inside() as server:
        for _ in range(10):
            health(server.port)
            post(server.port, chat({"say": "hi"}, stream=True))
            with Connection(server.port) as client:
                client.ask("GET", "/health")
                time.sleep(0.01)
            Connection(server.port).close()
        until(lambda: half_closed(server.port) == 0)


def half_closed(port: int) -> int:
    """Sockets of a server on this machine whose clients have closed their end and it has not (CLOSE_WAIT)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "08" for row in rows)


def test_what_breaks_one_connection_breaks_no_other(start: Start) -> None:
    """Bytes behind a last request, at the moment of its answer, once ended the whole process."""
    server = start()
    body = json.dumps(chat({"say": "hi"})).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    )
    with Connection(server.port) as bystander:
        for round_ in range(150):
            with Connection(server.port, timeout_s=5) as client:
                client.send_raw(head + body)
                time.sleep(0.001 + 0.00002 * round_)
                try:
                    client.send_raw(head)
                    client.is_closed_by_server()
                except ConnectionError:
                    pass
        assert bystander.ask("GET", "/health").status == 200
    assert "Traceback" not in server.log


@pytest.mark.spec("API-003", "SCH-063")
def test_a_stalled_reader_holds_up_nobody() -> None:
    with open_inside(client_stall_s=1.0) as server, Connection(server.port, receive_buffer=4096) as stalled:
        stalled.send("POST", CHAT, chat(TORRENT, stream=True, max_tokens=200_000))
        stalled.head()
        start = time.monotonic()
        while health(server.port)["inflight"]["running"]:
            asked = time.monotonic()
            health(server.port)
            assert time.monotonic() - asked < 1
            assert time.monotonic() - start < 30
            time.sleep(0.05)
        assert post(server.port, chat({"say": "served"})).text == "served"
        stalled.reset()
        until(lambda: len(server.harness.outcomes) == 2)
        assert {outcome.finish_reason for outcome in server.harness.outcomes} == {"abandoned", "stop"}


@pytest.mark.spec("API-003", "SCH-063")
def test_the_kernel_ends_the_connection_of_a_stalled_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "CLIENT_GONE_MS", 800)
    with open_inside(client_stall_s=0.3) as server, Connection(server.port, receive_buffer=4096) as stalled:
        stalled.send("POST", CHAT, chat(TORRENT, stream=True, max_tokens=200_000))
        stalled.head()
        until(lambda: not health(server.port)["inflight"]["running"])
        assert server.harness.outcomes == []
        until(lambda: len(server.harness.outcomes) == 1)
        server.stop()
        assert server.ended.wait(5), "a stalled reader holds up the shutdown"


@pytest.mark.spec("API-003", "SCH-063")
def test_the_listening_socket_times_dead_clients_out_after_a_minute() -> None:
    with closing(serve._bind(Settings(port=0))) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


@pytest.mark.spec("API-004")
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_65_mb_is_a_quick_413(fake: Server, chunked: bool) -> None:
    piece = b"x" * (1 << 20)
    before = len(fake.request_lines())
    start = time.monotonic()
    with Connection(fake.port) as client:
        length = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(65 << 20)}
        head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "127.0.0.1", **length}.items())
        client.send_raw(f"POST {CHAT} HTTP/1.1\r\n{head}\r\n".encode())
        for _ in range(65):
            client.send_raw(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            client.send_raw(b"0\r\n\r\n")
        refused = client.reply()
        assert time.monotonic() - start < 3
        assert refused.status == 413
        assert refused.headers["content-type"] == "application/json"
        assert refused.json["error"]["type"] == "invalid_request_error"
        assert "--max-body-mb" in refused.json["error"]["message"]
        assert client.ask("GET", "/health").status == 200
    until(lambda: len(fake.request_lines()) > before)
    assert fake.request_lines()[before]["status"] == "413"


@pytest.mark.spec("API-004", "API-026")
def test_bodies_in_flight_are_bounded() -> None:
    def small(harness: Harness) -> None:
        object.__setattr__(harness.service.context, "bodies", BodyBudget(100_000))  # frozen

    with open_inside(prepare=small) as server, ExitStack() as stack:
        for _ in range(3):  # 90,000 bytes are announced and never sent
            slow = stack.enter_context(Connection(server.port))
            slow.send("POST", CHAT, b"{", {"Content-Length": "30000"})
        until(lambda: server.harness.service.context.bodies._held == 90_000)
        refused = post(server.port, chat("x" * 20_000))
        assert refused.status == 503
        assert refused.headers["retry-after"] == "10"
        assert refused.json["error"]["code"] == "memory"
        assert post(server.port, chat({"say": "small"})).text == "small"
        stack.close()
        until(lambda: server.harness.service.context.bodies._held == 0)
        assert post(server.port, chat("x" * 20_000)).status == 200


def test_a_body_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.http.body.BODY_TIMEOUT_S", 0.3)
    monkeypatch.setattr("tandem.http.edge.REST_SILENCE_S", 0.1)
    with open_inside() as server, Connection(server.port) as client:
        client.send("POST", CHAT, b'{"messages"', {"Content-Length": "100"})
        reply = client.reply()
        assert reply.status == 408
        assert reply.json["error"]["type"] == "invalid_request_error"
        assert client.is_closed_by_server()


def test_headers_may_be_64_kib(fake: Server) -> None:
    with Connection(fake.port) as client:
        assert client.ask("GET", "/health", headers={"X-Long": "x" * 60_000}).status == 200
        assert client.ask("GET", "/health", headers={"X-Long": "x" * 200_000}).status == 431
