"""Responses: JSON bodies and event streams with the headers every proxy and client needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from quart import Response, current_app

from tandem.http.openai.errors import ApiError

__all__ = ["CONTRACT_VERSION", "data_response", "json_response", "refusal", "stream_response"]

CONTRACT_VERSION = "1.0"
"""Of the bodies that `contract/` describes (OBS-075)."""

STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def json_response(body: bytes, headers: Mapping[str, str] | None = None, *, status: int = 200) -> Response:
    """A complete JSON body."""
    return Response(body, status=status, headers=dict(headers or {}), content_type="application/json")


def data_response(body: Mapping[str, Any]) -> Response:
    """What a data route of dashboard or conductor answers: never kept by a cache, its contract's version at the top."""
    encoded = msgspec.json.encode({"contract_version": CONTRACT_VERSION, **body})
    return json_response(encoded, {"Cache-Control": "no-store"})


def refusal(error: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    """The response of a request that was refused or has failed."""
    return json_response(error.body(), {**error.headers(), **(headers or {})}, status=error.status)


def stream_response(body: AsyncIterator[bytes], headers: Mapping[str, str]) -> Response:
    """Server-sent events. `make_response` would refuse an async iterator and a timeout would cut a long answer."""
    response: Response = current_app.response_class(
        body, headers={**STREAM_HEADERS, **headers}, content_type="text/event-stream"
    )
    response.timeout = None
    return response
