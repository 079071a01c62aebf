"""Hypercorn's TCP connection with faults of it cured (0.18), under `tandem serve` and under plain Hypercorn alike.

- What went wrong in one connection ended the server. A request with `Connection: close` and a byte too many behind it
  was enough: the error response met the closing of the socket (`BusyResourceError`).
- A connection that its client had closed was kept, with its socket, until the keep-alive timeout.
- A client that left while a second request stood in the pipe left the connection's reader waiting for ever, and held up
  each shutdown for the whole grace.
"""

from __future__ import annotations

import logging
from typing import Any

import hypercorn.trio.run
import trio
from hypercorn.events import Closed, RawData, Updated
from hypercorn.trio.tcp_server import TCPServer

__all__ = ["Connection", "install"]

log = logging.getLogger(__name__)


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
        await super()._read_data()
        self._has_left = True
        await self.idle_task.stop()


def install() -> None:
    """Have Hypercorn's server make its connections of this class."""
    hypercorn.trio.run.TCPServer = Connection
