"""What is made of the field table (API, section 6): the refusals, what a log may show, the schemas of the requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from tandem.http.openai.errors import invalid
from tandem.http.openai.field_table import CHAT, COMPLETIONS, Disposition, Field

__all__ = [
    "CHAT_FIELDS",
    "COMPLETION_FIELDS",
    "Disposition",
    "Field",
    "DISPOSITION",
    "inner",
    "or_null",
    "refuse_fields",
    "request_schema",
    "shown_fields",
]

DISPOSITION = "x-disposition"
"""The member of a field's schema that says what becomes of it."""


def inner(rows: Iterable[Field], parent: str = "") -> list[Field]:
    """The members of `parent`, without theirs; of the body itself where it is empty."""
    prefix = f"{parent}." if parent else ""
    return [row for row in rows if row.name.startswith(prefix) and "." not in row.name.removeprefix(prefix)]


def _by_name(rows: Iterable[Field]) -> Mapping[str, Field]:
    return MappingProxyType({row.name: row for row in inner(rows)})


CHAT_FIELDS = _by_name(CHAT)
"""The fields of a chat body itself, by name."""
COMPLETION_FIELDS = _by_name(COMPLETIONS)
"""The same of a text completion."""


def refuse_fields(body: Mapping[str, Any], table: Mapping[str, Field]) -> None:
    """Raise a 400 for the first refused field that is present; null counts as absent (API-028)."""
    for name, value in body.items():
        row = table.get(name)
        if row is None or row.disposition is not Disposition.REFUSED or value is None:
            continue
        if not any(value is passing for passing in row.schema.get("enum", ())):
            raise invalid(name, f"{name} is not supported; {row.instead}")


_WORDS = {row.name for row in (*CHAT, *COMPLETIONS) if row.is_word}
_KNOWN = CHAT_FIELDS.keys() | COMPLETION_FIELDS.keys()


def shown_fields(body: Mapping[str, Any]) -> str:
    """The fields of a request as `--log-request-keys` logs them: names, numbers, switches and known words.

    Of anything that could hold text only the kind is shown; a field outside the tables is counted, since its name is
    the client's.
    """
    shown = [f"{name}={_shown(name, value)}" for name, value in body.items() if name in _KNOWN]
    others = len(body) - len(shown)
    return " ".join([*shown, f"others={others}"] if others else shown)


def _shown(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str) and name in _WORDS and len(value) <= 100:
        return repr(value)
    return type(value).__name__


def request_schema(rows: Iterable[Field], parent: str = "") -> dict[str, Any]:
    """JSON Schema of the request's body, or of the member `parent` of it. What is not named passes (API-029)."""
    rows = tuple(rows)
    members = inner(rows, parent)
    required = [_last(row) for row in members if row.required]
    return {
        "type": "object",
        "properties": {_last(row): _member(row, rows) for row in members},
        **({"required": required} if required else {}),
    }


def _member(row: Field, rows: tuple[Field, ...]) -> dict[str, Any]:
    schema = request_schema(rows, row.name) if inner(rows, row.name) else dict(row.schema)
    return {
        **(schema if row.required else or_null(schema)),
        "description": row.meaning,
        DISPOSITION: row.disposition.value,
    }


def _last(row: Field) -> str:
    return row.name.rpartition(".")[2]


def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same with null, which counts as absent (API-028)."""
    kind = schema.get("type")
    if not schema or kind == "null":
        return dict(schema)
    if isinstance(kind, str):
        words = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return {**schema, "type": [kind, "null"], **words}
    if None in schema.get("enum", ()):
        return dict(schema)
    return {"anyOf": [*schema["anyOf"], {"type": "null"}] if "anyOf" in schema else [schema, {"type": "null"}]}
