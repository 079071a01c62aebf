"""The live view's wire: one document over HTTP, or one after another over a websocket (OBS-056, OBS-057)."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, ConnectionTimeout, HandshakeError, open_websocket

from tandem.cli.client import ChatError, NoServer
from tandem.cli.live_document import Final

__all__ = ["Address", "Frame", "Lost", "follow", "snapshot"]

ROUTE = "/v1/dashboard/live"
CONNECT_S = 10.0
SILENCE_S = 20.0
"""Longest silence: a server sends an event a second to whoever watches."""
MAX_BODY = 4 * 1024 * 1024
PASSWORD = "the server asks for its password: put it into TANDEM_ADMIN_TOKEN"

Frame = dict[str, Any]
"""`type` (live, gap or bye), `seq` and `data`."""


class Lost(Exception):
    """The connection is gone, and another one may come; the message says why."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and the password for it."""

    url: str
    host: str
    port: int
    is_tls: bool
    path: str
    token: str | None = None

    @classmethod
    def parse(cls, url: str, token: str | None = None) -> Address:
        """`url` is with or without `/v1` at its end. Raises `ChatError` for what is no address."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise ChatError(f"--url: {url!r} is no address; it takes one like http://127.0.0.1:8000")
        is_tls = parts.scheme == "https"
        prefix = parts.path.rstrip("/").removesuffix("/v1")
        return cls(url, parts.hostname, port or (443 if is_tls else 80), is_tls, prefix + ROUTE, token)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def unreachable(self) -> NoServer:
        return NoServer(f"no server answers at {self.url}: start one with tandem serve, or give another address")


def snapshot(address: Address) -> Any:
    """The document as it is now, decoded."""
    kind = http.client.HTTPSConnection if address.is_tls else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=CONNECT_S)
    with closing(connection):
        try:
            connection.connect()
        except OSError:
            raise address.unreachable() from None
        try:
            connection.request("GET", f"{address.path}?follow=0", headers=address.headers)
            with connection.getresponse() as response:
                status, body = response.status, response.read(MAX_BODY)
        except (OSError, http.client.HTTPException):
            raise ChatError(f"the server at {address.url} gave no answer") from None
    if status != 200:
        raise refusal(status, body)
    return _decoded(body)


async def follow(address: Address, take: Callable[[Frame], None]) -> None:
    """`take` gets the frames of one connection, up to the server's `bye`.

    Raises `Lost` where the connection is lost, `ChatError` where it was refused, and what `take` raises.
    """
    context: ssl.SSLContext | bool = ssl.create_default_context() if address.is_tls else False
    headers = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in address.headers.items()]
    try:
        async with open_websocket(
            address.host,
            address.port,
            address.path,
            use_ssl=context,
            extra_headers=headers,
            connect_timeout=CONNECT_S,
            disconnect_timeout=1,
            max_message_size=MAX_BODY,
        ) as socket:
            frame: Frame = {}
            while frame.get("type") != "bye":
                with trio.fail_after(SILENCE_S):
                    text = await socket.get_message()
                frame = _decoded(text)
                take(frame)
    except ConnectionRejected as error:
        raise refusal(error.status_code, error.body or b"") from None
    except ConnectionClosed:
        raise Lost("the connection is lost") from None
    except (ConnectionTimeout, HandshakeError, OSError):
        raise address.unreachable() from None
    except trio.TooSlowError:
        raise Lost("the server says nothing") from None


def refusal(status: int, body: bytes) -> ChatError:
    """What a refusal means to the person at the terminal."""
    if status == 401:
        return Final(PASSWORD)
    try:
        error = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        kind = ChatError if status >= 500 else Final  # a proxy whose server is away for a moment
        return kind(f"what answers there is no Tandem (status {status}); does --url name the right port?")
    return ChatError(f"{' '.join(str(error).split())} (status {status})")


def _decoded(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise Final("what answers there is no Tandem; does --url name the right port?") from None
