"""Typed reads of JSON values: each takes a value and its path, gives None for null, and raises a 400 for a wrong type.

A boolean is not a number here, and a number with a fraction part, `8.0` among them, is not an integer: JSON libraries
keep the two apart, so a float where a count belongs is a client's mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tandem.http.openai.errors import invalid

__all__ = ["MAX_INT", "as_bool", "as_int", "as_list", "as_number", "as_object", "as_str", "as_word"]

MAX_INT = 2**31 - 1
"""Counts above this are read as this: beyond every window and vocabulary they mean the same, and they fit a column."""


def as_bool(value: Any, path: str) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise invalid(path, f"{path} must be true or false")


def as_str(value: Any, path: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise invalid(path, f"{path} must be a string")


def as_object(value: Any, path: str) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, Mapping):
        return value
    raise invalid(path, f"{path} must be an object")


def as_list(value: Any, path: str) -> Sequence[Any] | None:
    if value is None or isinstance(value, list):
        return value
    raise invalid(path, f"{path} must be a list")


def as_word(value: Any, path: str, words: Sequence[str]) -> str | None:
    """One of `words`, which are lower case; the client may write them in any case (API-091)."""
    if value is None:
        return None
    word = value.lower() if isinstance(value, str) else None
    if word not in words:
        raise invalid(path, f"{path} must be one of {', '.join(words)}")
    return word


def as_int(value: Any, path: str, *, low: int, high: int | None = None) -> int | None:
    """An integer of at least `low` and at most `high`; both ends are allowed."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= low and (high is None or value <= high):
        return value
    span = f"of at least {low}" if high is None else f"from {low} to {high}"
    raise invalid(path, f"{path} must be an integer {span}")


def as_number(value: Any, path: str, *, low: float, high: float | None = None, above: bool = False) -> float | None:
    """A finite number from `low` to `high`; with `above` the low end itself is not allowed."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # An integer beyond a double compares well but does not convert.
        top = sys.float_info.max if high is None else high
        if (low < value if above else low <= value) and value <= top:
            return float(value)
    start = f"above {low:g}" if above else f"of at least {low:g}" if high is None else f"from {low:g}"
    end = "" if high is None else f" {'and at most' if above else 'to'} {high:g}"
    raise invalid(path, f"{path} must be a number {start}{end}")
