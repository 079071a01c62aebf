"""Clients that leave, by FIN, by RST or by half a close, in every phase (HTTP API section 19, cases L)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.process import Server
from tests.e2e.wire import CHAT, Connection, chat, health, post, until

STEP_S = 0.02
ENDLESS = {"say": "la ", "loop": True, "token_ms": 1e3 * STEP_S}
FREED_S = 1.0
"""API-168; a loaded machine needs some of it."""

Leave = Callable[[Connection], None]
WAYS: dict[str, Leave] = {"fin": Connection.close, "rst": Connection.reset, "half": Connection.half_close}


@pytest.fixture(params=WAYS)
def leave(request: pytest.FixtureRequest) -> Leave:
    return WAYS[request.param]


@pytest.fixture(params=[True, False], ids=["stream", "json"])
def client(request: pytest.FixtureRequest, fake: Server) -> Iterator[tuple[Connection, bool]]:
    """A connection, and whether its request is to be streamed."""
    with Connection(fake.port) as connection:
        yield connection, request.param


def inflight(server: Server) -> Any:
    return health(server.port)["inflight"]


def is_free(server: Server) -> bool:
    return bool(inflight(server)["running"] == 0)


def abandoned(server: Server) -> list[dict[str, str]]:
    """The log lines of requests whose client had left."""
    return [line for line in server.request_lines() if line["finish"] == "abandoned"]


def new_lines(server: Server, before: int, count: int = 1) -> list[dict[str, str]]:
    until(lambda: len(abandoned(server)) >= before + count)
    return abandoned(server)[before:]


@pytest.mark.spec("API-167", "API-168", "API-169", "SCH-077")
def test_while_it_writes(fake: Server, client: tuple[Connection, bool], leave: Leave) -> None:
    connection, streamed = client
    before, counted = len(abandoned(fake)), inflight(fake)["abandoned"]
    connection.send("POST", CHAT, chat(ENDLESS, stream=streamed, max_tokens=10_000))
    if streamed:
        connection.head()
        next(connection.pieces())
    until(lambda: not is_free(fake))
    leave(connection)
    assert until(lambda: is_free(fake)) < FREED_S
    [line] = new_lines(fake, before)
    assert "error" not in line
    assert inflight(fake)["abandoned"] == counted + 1
    assert post(fake.port, chat({"say": "next"})).text == "next"


@pytest.mark.spec("API-167", "SCH-077")
def test_while_its_prompt_is_read(fake: Server, client: tuple[Connection, bool], leave: Leave) -> None:
    connection, streamed = client
    before = len(abandoned(fake))
    body = chat({"say": "x", "prefill_ms_per_token": 0.1}, stream=streamed)
    body["messages"].insert(0, {"role": "system", "content": "word " * 64_000})  # 6.4 s, a step of 0.1 s
    connection.send("POST", CHAT, body)
    until(lambda: not is_free(fake))
    leave(connection)
    assert until(lambda: is_free(fake)) < FREED_S
    [line] = new_lines(fake, before)
    assert line["completion_tokens"] == "0"


@pytest.mark.spec("API-168", "SCH-016")
def test_while_it_waits(fake: Server, client: tuple[Connection, bool], leave: Leave) -> None:
    connection, streamed = client
    before = len(abandoned(fake))
    with Connection(fake.port) as holder:
        holder.send("POST", CHAT, chat(ENDLESS, stream=True))
        holder.head()
        connection.send("POST", CHAT, chat({"say": "never"}, stream=streamed))
        until(lambda: inflight(fake)["waiting"] == 1)
        leave(connection)
        assert until(lambda: inflight(fake)["waiting"] == 0) < FREED_S
        assert not is_free(fake)
    lines = new_lines(fake, before, 2)
    assert lines[0]["completion_tokens"] == "-", "it has run"
    until(lambda: is_free(fake))


@pytest.mark.spec("API-167")
def test_a_stream_is_left_after_its_first_chunk(fake: Server) -> None:
    """L-01: the slot is free within a step, so the next request starts at once."""
    with Connection(fake.port) as connection:
        connection.send("POST", CHAT, chat(ENDLESS, stream=True, max_tokens=4096))
        connection.head()
        next(connection.pieces())
    assert post(fake.port, chat({"say": "now"})).json["timings"]["queue_ms"] < 1e3 * FREED_S


@pytest.mark.spec("API-168")
def test_many_who_leave_leave_nothing(fake: Server) -> None:
    before = len(abandoned(fake))
    for round_ in range(20):
        with Connection(fake.port) as connection:
            connection.send("POST", CHAT, chat(ENDLESS, stream=round_ % 2 == 0))
    until(lambda: is_free(fake) and inflight(fake)["waiting"] == 0)
    assert len(new_lines(fake, before, 20)) == 20
    assert post(fake.port, chat({"say": "still here"})).text == "still here"
