"""JSON Schemas in words, for the page at /docs and for docs/fields.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["takes"]

PLAIN = {"boolean": "`true` or `false`", "object": "an object"}


def takes(schema: Mapping[str, Any], *, null: bool = True) -> str:
    """The values a schema allows; code stands in backquotes. Without `null`, that it may be null is left out.

    It knows the keywords that the schemas of this package use; a title stands for all of them. It says nothing of an
    object's members.
    """
    if "title" in schema:
        return str(schema["title"])
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return _either([takes(each, null=null) for each in schema["anyOf"] if null or each.get("type") != "null"])
    if "enum" in schema:
        return _either([_code(value) for value in schema["enum"] if null or value is not None])
    if "const" in schema:
        return _code(schema["const"])
    kinds = schema.get("type", "anything")
    if isinstance(kinds, str):
        return _kind(kinds, schema, null=null)
    return _either([_kind(kind, schema, null=null) for kind in kinds if null or kind != "null"])


def _kind(kind: str, schema: Mapping[str, Any], *, null: bool) -> str:
    match kind:
        case "integer" | "number":
            return f"{'an integer' if kind == 'integer' else 'a number'}{_range(schema)}"
        case "string":
            return f"a string{' that is not empty' if schema.get('minLength') else ''}"
        case "array":
            return f"a list of {_plural(takes(schema.get('items', {}), null=null))}{_size(schema)}"
        case "null":
            return "`null`" if null else "nothing"
        case _:
            return PLAIN.get(kind, kind)


def _range(schema: Mapping[str, Any]) -> str:
    above, low, high = (schema.get(name) for name in ("exclusiveMinimum", "minimum", "maximum"))
    if high is None:
        return f" above {above:,}" if above is not None else "" if low is None else f" of at least {low:,}"
    return f" above {above:,}, at most {high:,}" if above is not None else f" from {low:,} to {high:,}"


def _size(schema: Mapping[str, Any]) -> str:
    return ", at least one" if schema.get("minItems") == 1 else ""


def _plural(one: str) -> str:
    return re.sub(r"^an? (\w+)", r"\1s", one)


def _either(options: list[str]) -> str:
    *first, last = dict.fromkeys(options)
    return f"{', '.join(first)} or {last}" if first else last


def _code(value: Any) -> str:
    return f"`{msgspec.json.encode(value).decode()}`"
