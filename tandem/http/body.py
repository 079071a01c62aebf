"""A request's body, read under its limits (API-004)."""

from __future__ import annotations

from typing import Any

import trio
from quart import request
from werkzeug.exceptions import RequestEntityTooLarge

from tandem.http.context import Hold
from tandem.http.openai import errors
from tandem.http.openai.decode import decode_body

__all__ = ["BODY_TIMEOUT_S", "read_body", "read_fields"]

BODY_TIMEOUT_S = 300.0
"""How long a body may take to arrive."""
NAME_CHARS = 64
"""Characters of a field's name that a refusal repeats at most."""


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


async def read_fields(hold: Hold, limit: int, *fields: str) -> dict[str, Any]:
    """The JSON object of the present request. Raises `ApiError` 400 for a field that is none of `fields`, too."""
    body = decode_body(await read_body(hold, limit))
    unknown = next((name for name in body if name not in fields), None)
    if unknown is not None:
        there = f"there {'is' if len(fields) == 1 else 'are'} {', '.join(fields)}"
        raise errors.invalid(unknown[:NAME_CHARS], f"there is no such field; {there}")
    return body
