"""The gate: an ASGI layer inside the edge that refuses whom access refuses, before a byte of a body is read.

It answers refusals and preflights itself, websockets too, and puts CORS headers on the responses of the app. Who is
refused here has no ledger row, no log line and no request id: strangers could fill disks with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import trio
from quart import has_request_context, request, websocket

from tandem.http.access.classes import normalise
from tandem.http.access.rules import Access, Asked
from tandem.http.edge import AsgiApp, Receive, Scope, Send
from tandem.http.openai.errors import ApiError

__all__ = ["Gate", "asked"]

ASKED_KEY = "tandem.asked"
UPLOAD_S = 5.0
"""How long a refusal waits for the body of its request."""


class Gate:
    """Wraps the app; `now` gives the seconds since 1970."""

    def __init__(self, app: AsgiApp, access: Access, now: Callable[[], float]) -> None:
        self._app = app
        self._access = access
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        seen = _read_scope(scope, self._now())
        sharing = self._access.sharing
        shared = sharing.headers(seen.path, seen.headers)
        refused = self._access.refusal(seen)
        if refused is not None and seen.is_websocket:
            await _refuse_websocket(scope, send, refused)
        elif refused is not None:
            await _answer(receive, send, refused.status, _error_headers(refused) | shared, refused.body())
        elif (preflight := sharing.preflight(seen.method, seen.path, seen.headers)) is not None:
            await _answer(receive, send, 204, preflight | shared)
        else:
            scope[ASKED_KEY] = seen
            await self._app(scope, receive, _with_headers(send, shared) if shared else send)


def asked() -> Asked:
    """The present request, or websocket, as access sees it."""
    scope: Any = request.scope if has_request_context() else websocket.scope
    seen: Asked = scope[ASKED_KEY]
    return seen


def _read_scope(scope: Scope, now: float) -> Asked:
    """A header that comes twice is joined, so that two hosts, origins or tokens are none."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in headers:
            value = f"{headers[name]}{'; ' if name == 'cookie' else ', '}{value}"
        headers[name] = value
    is_websocket = scope["type"] == "websocket"
    return Asked(
        method="GET" if is_websocket else scope["method"].upper(),
        path=normalise(scope["path"], scope.get("root_path", "")),
        headers=headers,
        peer=(scope.get("client") or (None,))[0],
        now=now,
        is_websocket=is_websocket,
    )


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    async def send_more(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *_encoded(headers)]}
        await send(message)

    return send_more


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


def _error_headers(error: ApiError) -> dict[str, str]:
    return {"Content-Type": "application/json", "Content-Length": str(len(error.body())), **error.headers()}


async def _answer(receive: Receive, send: Send, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
    """A whole response, once the request's body has come, which is dropped.

    A client that gets it in the middle may stop sending (curl does), and then each waits for the other's end. The edge
    goes on waiting with the very end of the response where the body takes longer than `UPLOAD_S`.
    """
    async with trio.open_nursery() as nursery:
        ended = trio.Event()
        nursery.start_soon(_drop_body, receive, ended)
        with trio.move_on_after(UPLOAD_S):
            await ended.wait()
        await send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
        await send({"type": "http.response.body", "body": body, "more_body": False})
        nursery.cancel_scope.cancel()


async def _drop_body(receive: Receive, ended: trio.Event) -> None:
    while (await receive()).get("more_body", False):
        pass
    ended.set()


async def _refuse_websocket(scope: Scope, send: Send, error: ApiError) -> None:
    """A response in place of the handshake; servers without that extension make a 403 of the close."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = _encoded(_error_headers(error))
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": error.body(), "more_body": False})
