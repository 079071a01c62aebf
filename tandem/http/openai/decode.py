"""From the bytes of a request to a JSON object."""

from __future__ import annotations

import codecs
import re
from typing import Any

import msgspec

from tandem.http.openai.errors import ApiError, invalid

__all__ = ["MAX_DEPTH", "decode_body"]

MAX_DEPTH = 128
"""Nesting a body may have. What walks a body later (schemas, templates) uses several stack frames a level."""

# Reads one escape after the other, so an escaped backslash before a `u` is never taken for the start of a surrogate.
ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)


def decode_body(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`. Of a key that occurs twice the last value stands.

    A lone surrogate escape becomes U+FFFD (API-262), so a tool result that holds one does not end its session. Raises
    `ApiError` 400 for anything else that is not a JSON object in UTF-8 (API-004): NaN, Infinity and numbers beyond a
    double are not JSON, and surrogates written as raw bytes are not UTF-8.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        body = _decode(raw)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.DecodeError as error:
        raise _explain(raw, error) from None
    if not isinstance(body, dict):
        raise invalid(None, "the request body must be a JSON object")
    # Each level costs one bracket, so most bodies need no walk.
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _is_deeper(body, MAX_DEPTH):
        raise _too_deep()
    return body


def _decode(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        repaired = ESCAPE.sub(lambda match: rb"\ufffd" if match["lone"] else match[0], raw)
        if repaired == raw:
            raise
        return msgspec.json.decode(repaired)


def _explain(raw: bytes, error: msgspec.DecodeError) -> ApiError:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as bad:
        return invalid(None, f"the request body is not valid UTF-8 at byte {bad.start}")
    return invalid(None, f"the request body is not valid JSON: {error}")


def _too_deep() -> ApiError:
    return invalid(None, f"the request body is nested deeper than {MAX_DEPTH} levels")


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True
