"""A parameter's value as JSON of the type its schema asks for (API-109).

Where the schema rules strings out, a value is read as one of the types it leaves: a number as it is written, but
without leading zeros; `True`, `False` and `None` as JSON; `5.0` as the integer 5 where only integers are allowed. In a
union with string the value must be the type's canonical JSON, to the character: `42`, but not `007`, ` 42` or `1.50`.
Whatever is left is a string, byte for byte.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tandem.engine.text.reading.calls.schemas import Types, types_of
from tandem.engine.text.reading.calls.source import SPACE

__all__ = ["checked", "escaped", "is_text", "quoted", "retyped", "typed", "typed_as"]

_WORDS = {
    "boolean": {"true": "true", "false": "false", "True": "true", "False": "false"},
    "null": {"null": "null", "None": "null"},
}
# Python reads no integer of more than 4,300 digits; a longer one stays a string, which every client can read.
_INTEGER = re.compile(r"(-?)([0-9]{1,4000})(?:\.0+)?")
_NUMBER = re.compile(r"(-?)([0-9]{1,4000})((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,3999}")
_CONTAINERS = {"{": "object", "[": "array"}


def typed(value: str, schema: Any, root_schema: Any) -> str:
    """`value` as JSON; `$ref` in `schema` is looked up in `root_schema`."""
    return typed_as(value, types_of(schema, root_schema))


def typed_as(value: str, types: Types) -> str:
    """`value` as JSON of one of the types."""
    found: str | None
    if types is None or is_text(types):
        found = None
    elif "string" in types:
        found = _canonical(value, types)
    else:
        found = _read(value.strip(SPACE), types)
    return quoted(value) if found is None else found


def retyped(raw: str, types: Types) -> str:
    """The same for a value that is JSON already: a string where none may be is read, the rest stays as it is.

    Where only a string may be, another value but null becomes the string of its own text.
    """
    if types is None:
        return raw
    if raw.startswith('"'):
        found = None if is_text(types) or "string" in types else _read(json.loads(raw).strip(SPACE), types)
        return raw if found is None else found
    return quoted(raw) if types == {"string"} and raw != "null" else raw


def is_text(types: Types) -> bool:
    """Whether every value is a string, so that it can go out before its end is known."""
    return not types or types == {"string"}


def quoted(text: str) -> str:
    """The JSON string."""
    return json.dumps(text, ensure_ascii=False)


def escaped(text: str) -> str:
    """A piece of the inside of a JSON string. Each character is escaped by itself, so pieces can be joined."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def checked(raw: str) -> Any:
    """The JSON value, numbers as their text. `ValueError` if it is none; NaN and infinities are none."""
    try:
        return json.loads(raw, parse_int=str, parse_float=str, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read(value: str, types: frozenset[str]) -> str | None:
    for kind, words in _WORDS.items():
        if kind in types and value in words:
            return words[value]
    if "number" in types and (match := _NUMBER.fullmatch(value)):
        return match[1] + _digits(match[2]) + match[3]
    if "integer" in types and (match := _INTEGER.fullmatch(value)):
        return match[1] + _digits(match[2])
    return value if _CONTAINERS.get(value[:1]) in types and _is_json(value) else None


def _digits(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _canonical(value: str, types: frozenset[str]) -> str | None:
    if value in ("true", "false"):
        return value if "boolean" in types else None
    if value == "null":
        return value if "null" in types else None
    if _CANONICAL_INTEGER.fullmatch(value):
        return value if "integer" in types else None
    if "number" in types and _NUMBER.fullmatch(value):
        # Of RFC 8785, without the exponents; it writes 1.0 as 1.
        return value if repr(float(value)) == value and value.strip("-0123456789") == "." and value[-1] != "0" else None
    return value if _CONTAINERS.get(value[:1]) in types and _is_canonical(value) else None


def _is_json(value: str) -> bool:
    try:
        json.loads(value, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):  # integers of too many digits are among the first
        return False
    return True


def _is_canonical(value: str) -> bool:
    """On one line, with the separators of Python's writer or of JavaScript's; a pretty-printed file is a string."""
    if not _is_json(value):
        return False
    parsed = json.loads(value)
    return value in (
        json.dumps(parsed, ensure_ascii=False),
        json.dumps(parsed, ensure_ascii=False, separators=(",", ":")),
    )
