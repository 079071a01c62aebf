"""Stands between a client and a server, so that a test sees what was asked and how it was answered."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Exchange", "relay"]

TIMEOUT_S = 60.0
PIECE = 65_536
OWN_HEADERS = ("transfer-encoding", "content-length", "connection", "keep-alive")


@dataclass(frozen=True, slots=True)
class Exchange:
    """`took_s` is the time to the response's head."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int
    took_s: float


@contextmanager
def relay(port: int) -> Iterator[tuple[int, list[Exchange]]]:
    """A port that passes everything on to `port`, and what has passed."""
    seen: list[Exchange] = []

    class Handler(BaseHTTPRequestHandler):
        """HTTP/1.0 to the client: the end of a response is the connection's end."""

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            begun = time.monotonic()
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
            headers = {name.lower(): value for name, value in self.headers.items()}
            upstream.request(self.command, self.path, body or None, headers)
            response = upstream.getresponse()
            took_s = time.monotonic() - begun
            seen.append(Exchange(self.command, self.path, headers, body, response.status, took_s))
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in OWN_HEADERS:
                    self.send_header(name, value)
            self.end_headers()
            while piece := response.read1(PIECE):
                self.wfile.write(piece)
            upstream.close()

        do_GET = do_HEAD = do_POST = pass_on  # noqa: N815  (the library's names)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1], seen
        finally:
            server.shutdown()
            thread.join()
