"""The edge: an ASGI layer around the Quart app that no request escapes.

It gives every request an exit stack that is closed however the request ends, counts what is being answered, and lets
Hypercorn finish its housekeeping after the last piece of a response. Without the last, Quart-Trio cancels Hypercorn
inside its own clean-up: keep-alive timeouts never fire and a client that got a 413 hangs on its next request.

A response that is ready before its request's body has come waits with its very end for the rest of that body, which is
dropped. Hypercorn would close the connection at once, and a client that still writes would get a reset for its 413.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import trio
from quart import has_request_context, request, websocket

from tandem.http.access.classes import normalise
from tandem.http.context import Traffic

__all__ = ["AsgiApp", "Edge", "Receive", "Scope", "Send", "at_exit", "only_watches"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

EXIT_KEY = "tandem.exit"
UNCOUNT_KEY = "tandem.uncount"
SWITCHING = 101
CLEANUP_S = 90.0
REST_S = 30.0
"""How long the rest of a body that nobody wants is read."""
REST_SILENCE_S = 5.0
"""How long of that without a byte."""


class Edge:
    """Wraps `app.asgi_app`."""

    def __init__(self, app: AsgiApp, traffic: Traffic, answered: Callable[[str, int], None]) -> None:
        """`answered` is told the path and the status of every response."""
        self._app = app
        self._traffic = traffic
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith("/"):
            scope["path"] = _path_of(scope["path"])
        async with _exits(scope):
            if scope["type"] == "http":
                await self._answer(scope, receive, send)
            else:
                await self._app(scope, receive, self._counting(scope, send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        counted = self._counting(scope, send)
        upload = _Upload(receive)

        async def shield_last(message: Any) -> None:
            upload.is_wanted = False
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if last:
                await upload.wait_end()
            with trio.CancelScope(shield=last):  # bounded: Hypercorn shields the write itself, the kernel times it out
                await counted(message)

        with self._traffic.one() as scope[UNCOUNT_KEY]:
            await self._app(scope, upload.receive, shield_last)

    def _counting(self, scope: Scope, send: Send) -> Send:
        path = normalise(scope["path"], scope.get("root_path", ""))

        async def send_counted(message: Any) -> None:
            match message["type"]:
                case "http.response.start" | "websocket.http.response.start":
                    self._answered(path, message["status"])
                case "websocket.accept":
                    self._answered(path, SWITCHING)
                case _:
                    pass
            await send(message)

        return send_counted


@asynccontextmanager
async def _exits(scope: Scope) -> AsyncIterator[None]:
    """What is pushed to the scope's exit stack is called at the end of the block."""
    stack = scope[EXIT_KEY] = AsyncExitStack()
    try:
        yield
    finally:
        with trio.move_on_after(CLEANUP_S, shield=True):  # bounded by what is pushed, and by CLEANUP_S
            await stack.aclose()


def _path_of(target: str) -> str:
    """The path of a request target in absolute form; Quart's own reading of it fails on a broken one."""
    try:
        path = urlsplit(target).path
    except ValueError:
        path = ""
    return "/" + path.lstrip("/")


class _Upload:
    """The request's body on its way to the app, which receives it in a task of its own."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = trio.Event()
        self._moved_at = 0.0
        self.is_wanted = True
        """Whether the app may still read it; from then on its bytes are dropped as they come."""

    async def receive(self) -> Any:
        message = await self._receive()
        self._moved_at = trio.current_time()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._ended.set()
        elif not self.is_wanted:
            message["body"] = b""
        return message

    async def wait_end(self) -> None:
        """Until all of it has come, or the client is too slow about it."""
        self._moved_at = trio.current_time()
        with trio.move_on_after(REST_S):
            while not self._ended.is_set():
                with trio.move_on_at(self._moved_at + REST_SILENCE_S):
                    await self._ended.wait()
                if trio.current_time() >= self._moved_at + REST_SILENCE_S:
                    return


def at_exit(close: Callable[[], Awaitable[object]]) -> None:
    """Have `close` awaited, under a shield, once the present request or websocket has ended in whatever way."""
    scope: Any = request.scope if has_request_context() else websocket.scope
    stack: AsyncExitStack = scope[EXIT_KEY]
    stack.push_async_callback(close)


def only_watches() -> None:
    """A drain does not wait for the end of the present request."""
    request.scope[UNCOUNT_KEY]()
