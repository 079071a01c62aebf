"""A TLS server on this machine with its own certificate, which answers each path as a test says."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import trio

__all__ = ["HOST", "Answer", "Certificate", "Names", "Server", "make_certificate", "ok", "redirect", "serve"]

HOST = "images.test"
OTHER = "other.test"
LOCAL = "127.0.0.1"

Answer: TypeAlias = bytes | Callable[[trio.abc.SendStream], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate for the two host names, and contexts of a server that has it and a client that trusts it."""

    path: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path, self.key)
        return context

    def client(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.path)
        return context


def make_certificate(folder: Path) -> Certificate:
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(made.key), "-out", str(made.path), "-days", "2", "-subj", "/CN=tests"]
    command += ["-addext", f"subjectAltName=DNS:{HOST},DNS:{OTHER}"]
    subprocess.run(command, check=True, capture_output=True)
    return made


def ok(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A 200; `length` is what Content-Length says, -1 for no such header."""
    said = [] if length == -1 else [f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join(["HTTP/1.1 200 OK", *said, *headers, "", ""]).encode() + body


def redirect(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n".encode()


@dataclass(slots=True)
class Names:
    """A resolver that answers from a script: a list of answers for each host, the last of which stays."""

    answers: dict[str, list[Sequence[str]]] = field(default_factory=lambda: {HOST: [[LOCAL]], OTHER: [[LOCAL]]})
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        answers = self.answers.get(host)
        if answers is None:
            raise OSError("no such host")
        return answers[0] if len(answers) == 1 else answers.pop(0)


@dataclass(slots=True)
class Server:
    """What the server answers by path, and what it was asked."""

    port: int
    answers: dict[str, Answer] = field(default_factory=dict)
    heads: list[bytes] = field(default_factory=list)
    """Heads of the requests, as they came."""
    names: list[str | None] = field(default_factory=list)
    """Host names that TLS clients asked for."""
    connections: int = 0
    open: int = 0

    def url(self, path: str, host: str = HOST) -> str:
        return f"https://{host}:{self.port}{path}"

    async def _handle(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self.connections += 1
        self.open += 1
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive_some() or b"\r\n\r\n"
            if not head.strip():
                return
            self.heads.append(head)
            answer = self.answers[head.split()[1].decode()]
            if isinstance(answer, bytes):
                await stream.send_all(answer)
            else:
                await answer(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has had enough
        finally:
            self.open -= 1
            await trio.aclose_forcefully(stream)


async def serve(certificate: Certificate, nursery: trio.Nursery) -> Server:
    """A server that runs in the nursery."""
    context = certificate.server()
    [listener] = await trio.open_ssl_over_tcp_listeners(0, context, host=LOCAL)
    transport = listener.transport_listener
    assert isinstance(transport, trio.SocketListener)
    server = Server(transport.socket.getsockname()[1])
    context.sni_callback = lambda _socket, name, _context: server.names.append(name)
    nursery.start_soon(trio.serve_listeners, server._handle, [listener])
    return server
