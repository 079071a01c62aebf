"""The chat client: reading a stream, and what it says when a server is absent, refuses or breaks off."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tandem.cli.client import ChatClient, ChatError, Event, Finished, NoServer, Piece, Waiting, events
from tests.cli.stub import DONE, Stub, chunk, running

QUESTION = [{"role": "user", "content": "hi"}]


def read(*parts: str) -> list[Event]:
    return list(events("".join(parts).encode().splitlines(keepends=True)))


def test_pieces_and_end() -> None:
    assert read(chunk("Hel"), chunk("lo"), chunk(reason="length", timings={"predicted_n": 2}), DONE) == [
        Piece("Hel"),
        Piece("lo"),
        Finished("length", {"predicted_n": 2}),
    ]


def test_comments_are_news_of_the_wait() -> None:
    assert read(": waiting, position 2\n\n", chunk("a"), DONE)[0] == Waiting("waiting, position 2")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_told_apart(name: str) -> None:
    event = {"choices": [{"delta": {name: "so"}}]}
    assert read(f"data: {json.dumps(event)}\n\n", DONE)[0] == Piece("so", reasoning=True)


def test_usage_chunk_without_choices() -> None:
    assert read('data: {"choices": [], "usage": {}}\n\n', DONE) == [Finished("")]


def test_error_chunk_raises_its_message() -> None:
    with pytest.raises(ChatError, match=r"^no memory left$"):
        read(chunk("a"), 'data: {"choices": [], "error": {"message": "no memory\\nleft"}}\n\n', DONE)


def test_stream_without_an_end() -> None:
    with pytest.raises(ChatError, match="closed the connection"):
        read(chunk("a"))


def test_not_an_api() -> None:
    with pytest.raises(ChatError, match="not the OpenAI API"):
        read("data: <html>\n\n")


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running(Stub()) as stub:
        yield stub


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_address_forms(stub: Stub, suffix: str) -> None:
    assert ChatClient(stub.url + suffix).model() == "TandemLLM"
    assert ChatClient(stub.url.removeprefix("http://") + suffix).model() == "TandemLLM"


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://127.0.0.1:port", "http://127.0.0.1:99999"])
def test_wrong_address(url: str) -> None:
    with pytest.raises(ChatError, match="--url"):
        ChatClient(url)


def test_streams_over_http(stub: Stub) -> None:
    assert list(ChatClient(stub.url).stream("m", QUESTION)) == [Piece("Hello"), Piece(" there"), Finished("stop")]
    assert stub.asked == [{"model": "m", "messages": QUESTION, "stream": True}]
    assert stub.keys == [None]


def test_a_key_is_sent_where_there_is_one(stub: Stub) -> None:
    list(ChatClient(stub.url, "sk-1").stream("m", QUESTION))
    assert stub.keys == ["Bearer sk-1"]


def test_closing_the_iterator_closes_the_connection(stub: Stub) -> None:
    stub.hold = True
    stream = ChatClient(stub.url).stream("m", QUESTION)
    assert next(stream) == Piece("Hello")
    stream.close()
    assert stub.left.wait(5)


def test_refusal(stub: Stub) -> None:
    stub.status = 503
    with pytest.raises(ChatError, match=r"^queue is full \(status 503\)$"):
        list(ChatClient(stub.url).stream("m", QUESTION))


def test_no_models(stub: Stub) -> None:
    stub.models = []
    with pytest.raises(ChatError, match="no model"):
        ChatClient(stub.url).model()


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(NoServer, match=f"no server answers at {url}: start one with tandem serve"):
            ChatClient(url).model()
