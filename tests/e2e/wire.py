"""HTTP/1.1 over a plain socket, so that tests see what a server writes, in which pieces and when."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

__all__ = ["CHAT", "Connection", "Reply", "chat", "fake", "health", "post", "until"]

CHAT = "/v1/chat/completions"
TIMEOUT_S = 30.0


def fake(**script: Any) -> str:
    """The text of a message that scripts the fake engine."""
    return f"@fake {json.dumps(script)}"


def chat(content: Any, **more: Any) -> dict[str, Any]:
    """A chat request with one user message; a dict scripts the fake engine."""
    text = fake(**content) if isinstance(content, dict) else content
    return {"model": "M", "messages": [{"role": "user", "content": text}], **more}


@dataclass(slots=True)
class Reply:
    """A response; `pieces` are the chunks of a chunked body with the seconds from the request to each."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    pieces: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def blocks(self) -> list[str]:
        """The events and comments of a stream."""
        assert self.body.endswith(b"\n\n")
        return self.body.decode().split("\n\n")[:-1]

    @property
    def chunks(self) -> list[Any]:
        events = [block for block in self.blocks if not block.startswith(":")]
        assert all(event.startswith("data: ") and "\n" not in event for event in events)
        return [json.loads(event[6:]) for event in events if event != "data: [DONE]"]

    @property
    def comments(self) -> list[str]:
        return [block[2:] for block in self.blocks if block.startswith(": ")]

    @property
    def is_done(self) -> bool:
        return self.body.endswith(b"data: [DONE]\n\n")

    @property
    def text(self) -> str:
        if self.headers["content-type"].startswith("text/event-stream"):
            return "".join(text_of(chunk) for chunk in self.chunks)
        return str(self.json["choices"][0]["message"]["content"])

    @property
    def finish(self) -> str | None:
        if self.headers["content-type"].startswith("text/event-stream"):
            reasons = [choice["finish_reason"] for chunk in self.chunks for choice in chunk["choices"]]
            return next((reason for reason in reasons if reason), None)
        return str(self.json["choices"][0]["finish_reason"])


def text_of(chunk: Any) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


class Connection:
    """One connection to 127.0.0.1; requests may be sent without waiting for the answers before them."""

    def __init__(self, port: int, *, receive_buffer: int | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout_s)
        try:
            self.socket.connect(("127.0.0.1", port))
            self._file = self.socket.makefile("rb")
        except BaseException:
            self.socket.close()
            raise
        self._sent_at = time.monotonic()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """FIN, or RST where unread data is left."""
        self._file.close()
        self.socket.close()

    def reset(self) -> None:
        """RST at once."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def half_close(self) -> None:
        """FIN: nothing more is sent, everything is still read."""
        self.socket.shutdown(socket.SHUT_WR)

    def send(
        self, method: str, path: str, body: bytes | dict[str, Any] = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """One request; a dict is sent as JSON."""
        raw = json.dumps(body).encode() if isinstance(body, dict) else body
        fields = {"Host": "127.0.0.1", "Content-Length": str(len(raw)), **(headers or {})}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.send_raw(head.encode("latin1") + b"\r\n" + raw)

    def send_raw(self, data: bytes) -> None:
        self._sent_at = time.monotonic()
        self.socket.sendall(data)

    def head(self) -> Reply:
        """Status and headers of the next response; interim responses are passed over."""
        while True:
            line = self._file.readline()
            if not line:
                raise EOFError("the server closed the connection")
            status = int(line.split()[1])
            headers: dict[str, str] = {}
            while field_line := self._file.readline().decode("latin1").strip():
                name, _, value = field_line.partition(":")
                headers[name.lower()] = value.strip()
            if status >= 200:
                return Reply(status, headers)

    def pieces(self) -> Iterator[tuple[float, bytes]]:
        """The chunks of a chunked body as they come, with the seconds since the request."""
        while size := int(self._file.readline(), 16):
            piece = self._file.read(size)
            assert len(piece) == size, "the server closed the connection in a chunk"
            self._file.readline()
            yield time.monotonic() - self._sent_at, piece
        self._file.readline()

    def reply(self, method: str = "POST") -> Reply:
        """The next response, whole. `method` tells whether it may have a body."""
        reply = self.head()
        if method == "HEAD" or reply.status in (204, 304):
            return reply
        if reply.headers.get("transfer-encoding") == "chunked":
            reply.pieces.extend(self.pieces())
            reply.body = b"".join(piece for _, piece in reply.pieces)
        elif "content-length" in reply.headers:
            reply.body = self._file.read(int(reply.headers["content-length"]))
        else:
            reply.body = self._file.read()
        return reply

    def ask(
        self, method: str, path: str, body: bytes | dict[str, Any] = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request and its response."""
        self.send(method, path, body, headers)
        return self.reply(method)

    def is_closed_by_server(self) -> bool:
        """Waits for the end of what the server sends; False when the timeout comes first."""
        try:
            while self._file.read1():
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True


def post(port: int, body: bytes | dict[str, Any], path: str = CHAT, **headers: str) -> Reply:
    """One request on a connection of its own."""
    with Connection(port) as connection:
        return connection.ask("POST", path, body, headers)


def health(port: int) -> Any:
    """The body of /health, whatever its status."""
    with Connection(port) as connection:
        return connection.ask("GET", "/health").json


def until(condition: Any, timeout_s: float = 10.0, every_s: float = 0.01) -> float:
    """Seconds until `condition()` holds; fails after `timeout_s`."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < timeout_s, "it did not come to hold in time"
        time.sleep(every_s)
    return time.monotonic() - start
