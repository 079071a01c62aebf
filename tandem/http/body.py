"""A request's body, read under its limits (API-004)."""

from __future__ import annotations

import trio
from quart import request
from werkzeug.exceptions import RequestEntityTooLarge

from tandem.http.context import Hold
from tandem.http.openai import errors

__all__ = ["BODY_TIMEOUT_S", "read_body"]

BODY_TIMEOUT_S = 300.0
"""How long a body may take to arrive."""


async def read_body(hold: Hold, limit: int) -> bytes:
    """The body of the present request, taken out of the budget of `hold`.

    Raises `ApiError`: 413 above `limit` bytes, 503 where the budget is used up, 408 after `BODY_TIMEOUT_S`.
    """
    announced = request.content_length or 0
    if announced > limit:
        raise errors.payload_too_large(limit)
    hold.grow(announced)
    raw = bytearray()
    try:
        with trio.move_on_after(BODY_TIMEOUT_S) as scope:
            async for piece in request.body:
                raw += piece
                if len(raw) > limit:
                    raise errors.payload_too_large(limit)
                if len(raw) > hold.size:
                    hold.grow(len(raw) - hold.size)
    except RequestEntityTooLarge:  # Quart's own limit, which sees only what nobody has read yet of a chunked body
        raise errors.payload_too_large(limit) from None
    if scope.cancelled_caught:
        raise errors.body_timeout(BODY_TIMEOUT_S)
    return bytes(raw)
