"""JSON for the wire: compact UTF-8 in which no string can end a line for any client's line splitter."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["dump", "string"]

_encode = msgspec.json.Encoder().encode

# Python's `str.splitlines`, which some clients use on a stream, breaks at these; the control characters among its
# line ends are escaped in JSON anyway.
_BREAKS = ((b"\xc2\x85", rb"\u0085"), (b"\xe2\x80\xa8", rb"\u2028"), (b"\xe2\x80\xa9", rb"\u2029"))


def dump(value: Any) -> bytes:
    """`value` as JSON. Its strings must be valid Unicode and its floats finite."""
    raw = _encode(value)
    return raw if raw.isascii() else _escape(raw)


def string(text: str) -> bytes:
    """`text` as a JSON string, quotes included. A lone surrogate, which UTF-8 cannot carry, becomes U+FFFD."""
    if text.isascii():
        return _encode(text)
    try:
        return _escape(_encode(text))
    except UnicodeEncodeError:
        return _escape(_encode(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")))


def _escape(raw: bytes) -> bytes:
    for plain, escaped in _BREAKS:
        raw = raw.replace(plain, escaped)
    return raw
