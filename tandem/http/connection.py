"""Hypercorn's connections with faults of them cured (0.18), under `tandem serve` and under plain Hypercorn alike.

- What went wrong in one connection ended the server. A request with `Connection: close` and a byte too many behind it
  was enough: the error response met the closing of the socket (`BusyResourceError`).
- A connection that its client had closed was kept, with its socket, until the keep-alive timeout.
- A websocket whose peer answers no ping was kept until the kernel gave it up, and a closed one until its next ping.
- A client that left while a second request stood in the pipe left the connection's reader waiting for ever, and held up
  each shutdown for the whole grace.
- A client that reads nothing held up a shutdown until the kernel gave it up: a write to it could not be cancelled.
- Websockets were compressed wherever the client could: the same event once again for each of its readers.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

import hypercorn.protocol.h11
import hypercorn.trio.run
import trio
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.events import Request
from hypercorn.protocol.h11 import H11WSConnection
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.tcp_server import MAX_RECV, TCPServer

__all__ = ["Connection", "Plain", "install"]

log = logging.getLogger(__name__)

SILENCE_S = 45.0
"""How long a websocket's peer may send nothing, pongs included: three pings (OBS-057)."""


class Connection(TCPServer):  # type: ignore[misc]
    """One connection; whatever goes wrong in it ends it alone."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._scope = trio.CancelScope()
        self._has_left = False
        """Whether the client has closed its end."""

    async def run(self) -> None:
        try:
            with self._scope:
                await super().run()
        except* Exception:
            log.exception("[http] a connection failed")

    async def protocol_send(self, event: Any) -> None:
        match event:
            case RawData():
                await self._send(event.data)
            case Updated(idle=True) if self._has_left:
                pass  # the timer would keep the connection
            case _:
                await super().protocol_send(event)

    async def _send(self, data: bytes) -> None:
        async with self.send_lock:
            try:
                with trio.CancelScope(shield=True):  # bounded by the kernel's TCP_USER_TIMEOUT
                    await self.stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                await self.protocol.handle(Closed())
                self._scope.cancel()

    async def _read_data(self) -> None:
        try:
            while (data := await self._receive()) is not None:
                await self.protocol.handle(RawData(data))
                if not data:
                    break
        except trio.Cancelled:
            await trio.aclose_forcefully(self.stream)  # ends the write, if there is one
            raise
        await self.protocol.handle(Closed())
        self._has_left = True
        await self.idle_task.stop()
        if self._is_websocket:
            self._scope.cancel()  # its pings would keep the connection until the next one

    async def _receive(self) -> bytes | None:
        """What has come, `b""` at the end, and None where the connection is broken or its peer silent."""
        try:
            with trio.move_on_after(SILENCE_S if self._is_websocket else self.config.read_timeout or math.inf):
                return bytes(await self.stream.receive_some(MAX_RECV))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return None
        if self._is_websocket:
            await self._close()  # also ends a write that the peer does not take
        return None

    @property
    def _is_websocket(self) -> bool:
        return isinstance(getattr(self.protocol.protocol, "connection", None), H11WSConnection)


class Plain(WSStream):  # type: ignore[misc]
    """A websocket without compression."""

    async def handle(self, event: Any) -> None:
        if isinstance(event, Request):
            headers = [each for each in event.headers if each[0].lower() != b"sec-websocket-extensions"]
            event = dataclasses.replace(event, headers=headers)
        await super().handle(event)


def install() -> None:
    """Have Hypercorn make its connections and websockets of these classes."""
    hypercorn.trio.run.TCPServer = Connection
    hypercorn.protocol.h11.WSStream = Plain
