"""A chat server without a model: answers what a test put into it, and keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Stub", "chunk", "running"]


def chunk(text: str | None = None, reason: str | None = None, **extra: Any) -> str:
    """The event of one chat chunk."""
    delta = {} if text is None else {"content": text}
    return f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': reason}], **extra})}\n\n"


DONE = "data: [DONE]\n\n"


@dataclass
class Stub:
    """What the server says: `events` of each stream, or a refusal with `status`; with `hold` a stream stays open."""

    events: list[str] = field(default_factory=lambda: [chunk("Hello"), chunk(" there"), chunk(reason="stop"), DONE])
    status: int = 200
    refusal: str = "queue is full"
    hold: bool = False
    models: list[str] = field(default_factory=lambda: ["TandemLLM"])
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    """The `Authorization` of each of them."""
    left: threading.Event = field(default_factory=threading.Event)
    """Set once a client has closed a held stream."""
    url: str = ""


def _handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._json(200, {"object": "list", "data": [{"id": name} for name in stub.models]})

        def do_POST(self) -> None:
            stub.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            stub.keys.append(self.headers["Authorization"])
            if stub.status != 200:
                self._json(stub.status, {"error": {"message": stub.refusal}})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.close_connection = stub.hold
            with suppress(ConnectionError):
                for event in stub.events:
                    self._chunk(event)
                if not stub.hold:
                    self.wfile.write(b"0\r\n\r\n")
                    return
                self.connection.settimeout(10)
                assert self.connection.recv(1) == b""
            stub.left.set()

        def _chunk(self, text: str) -> None:
            data = text.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        def _json(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves in the middle is part of the tests."""


@contextmanager
def running(stub: Stub) -> Iterator[Stub]:
    """Serve `stub` on a free port of this machine; `stub.url` says where."""
    with _Server(("127.0.0.1", 0), _handler(stub)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        stub.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
