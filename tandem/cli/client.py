"""A small client of the OpenAI chat API, on the standard library alone: what `tandem chat` needs and no more.

`events` reads a stream without any I/O of its own; `ChatClient` opens the connections.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

__all__ = ["ChatClient", "ChatError", "Event", "Finished", "NoServer", "Piece", "Waiting", "events"]

CONNECT_S = 10.0
SILENCE_S = 120.0
"""Longest silence inside a stream. Tandem breaks a silence with a comment after 10 s (API-260)."""


class ChatError(Exception):
    """The server refused or the answer broke off; the message is one line for the person at the terminal."""


class NoServer(ChatError):
    """Nothing answers at the address."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of the answer, or of the reasoning before it."""

    text: str
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A comment of the server: place in the queue, or how far the prompt is read."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer; `timings` is the server's own (API-160), empty where it sends none."""

    reason: str
    timings: Mapping[str, Any] = field(default_factory=dict)


Event = Piece | Waiting | Finished


def events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events of a server-sent stream of chat chunks; raises `ChatError` when it fails or ends too early."""
    reason = ""
    timings: Mapping[str, Any] = {}
    for line in lines:
        text = line.decode("utf-8", "replace").strip()
        if text.startswith(":"):
            yield Waiting(text[1:].strip())
        elif text == "data: [DONE]":
            yield Finished(reason, timings)
            return
        elif text.startswith("data:"):
            chunk = _object(text[5:])
            if "error" in chunk:
                raise ChatError(_message(chunk))
            timings = chunk.get("timings") or timings
            for choice in chunk.get("choices") or ():
                yield from _pieces(choice.get("delta") or {})
                reason = choice.get("finish_reason") or reason
    raise ChatError("the server closed the connection before the answer was complete")


def _pieces(delta: Mapping[str, Any]) -> Iterator[Piece]:
    if thought := delta.get("reasoning_content") or delta.get("reasoning"):
        yield Piece(thought, reasoning=True)
    if text := delta.get("content"):
        yield Piece(text)


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ChatError("the server sent something that is not the OpenAI API; does --url name the right port?")
    return value


def _message(body: Mapping[str, Any]) -> str:
    error = body.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(message or "the server reported an error without a message").split())


class ChatClient:
    """Talks to the server at `url`, with or without `/v1` at its end. One connection a request.

    `key` is the server's API key or password, where it asks for one.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise ChatError(f"--url: {url!r} is no address; it takes one like http://127.0.0.1:8000")
        self.url = url
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._parts = parts
        self._base = parts.path.rstrip("/").removesuffix("/v1") + "/v1"

    def model(self) -> str:
        """The name of the first model the server lists."""
        connection = self._connect()
        with closing(connection):
            body = self._ask(connection, "GET", "/models").read()
        try:
            return str(_object(body)["data"][0]["id"])
        except (KeyError, IndexError, TypeError):
            raise ChatError("the server lists no model at /v1/models") from None

    def json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What one request to the API is answered; `path` is below `/v1`."""
        connection = self._connect()
        with closing(connection):
            response = self._ask(connection, method, path, None if body is None else json.dumps(body))
            return _object(response.read())

    def stream(self, model: str, messages: Sequence[Mapping[str, str]]) -> Generator[Event]:
        """The answer as it comes. Closing the iterator early closes the connection, which stops the server's work."""
        body = json.dumps({"model": model, "messages": list(messages), "stream": True})
        connection = self._connect()
        with closing(connection):
            response = self._ask(connection, "POST", "/chat/completions", body)
            try:
                yield from events(response)
            except (OSError, http.client.HTTPException):
                raise ChatError("the connection broke before the answer was complete") from None

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        assert self._parts.hostname is not None
        connection = kind(self._parts.hostname, self._parts.port, timeout=CONNECT_S)
        try:
            connection.connect()
        except OSError:
            raise NoServer(
                f"no server answers at {self.url}: start one with tandem serve, or give another address"
            ) from None
        connection.sock.settimeout(SILENCE_S)
        return connection

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None
    ) -> http.client.HTTPResponse:
        try:
            connection.request(method, self._base + path, body, self._headers)
            response = connection.getresponse()
            if response.status == 200:
                return response
            refusal = response.read()
        except (OSError, http.client.HTTPException):
            raise ChatError(f"the server at {self.url} gave no answer") from None
        raise ChatError(f"{_message(_object(refusal))} (status {response.status})")
