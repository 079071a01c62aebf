"""The OpenAPI document as what its page shows: operations, tables of fields, shapes, commands to try (API-265)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup, escape

from tandem.http.openai.fields import DISPOSITION
from tandem.http.openai.schema_words import takes

__all__ = ["Answer", "Operation", "Row", "Shape", "code", "operations", "shapes"]

CODE = re.compile(r"`([^`]+)`")
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: a field of a request, a header, or a member of a shape."""

    name: str
    takes: str
    meaning: str
    mark: str = ""
    """What becomes of it, or that it is required."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One status of an operation."""

    status: str
    phrase: str
    meaning: str
    kinds: tuple[str, ...]
    """Media type and shape of each body it may have."""
    headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One route and method."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[Row, ...]
    fields: tuple[Row, ...]
    answers: tuple[Answer, ...]
    commands: tuple[str, ...]
    """curl, ready for a shell."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A named schema that others refer to."""

    name: str
    description: str
    rows: tuple[Row, ...]
    takes: str
    """What it is where it has no members of its own."""


def operations(document: Mapping[str, Any], base: str) -> list[Operation]:
    """The operations in the document's order. `base` is the address of the server, without a slash at its end."""
    return [
        _operation(document, base, path, method, each)
        for path, methods in document["paths"].items()
        for method, each in methods.items()
    ]


def shapes(document: Mapping[str, Any]) -> list[Shape]:
    """The shapes by name; those of the fields of a request stand with their operation."""
    bodies = {
        _name(content["schema"])
        for methods in document["paths"].values()
        for each in methods.values()
        for content in each.get("requestBody", {}).get("content", {}).values()
    }
    return [
        Shape(name, schema.get("description", ""), tuple(_members(schema, null=True)), takes(schema))
        for name, schema in sorted(document["components"]["schemas"].items())
        if name not in bodies
    ]


def code(text: str, names: frozenset[str] = frozenset()) -> Markup:
    """HTML of a text whose code stands in backquotes; the names of shapes among it become links to them."""
    pieces = []
    for i, piece in enumerate(CODE.split(text)):
        if i % 2 == 0:
            pieces.append(escape(piece))
        elif piece in names:
            pieces.append(Markup('<a href="#{0}"><code>{0}</code></a>').format(piece))
        else:
            pieces.append(Markup("<code>{}</code>").format(piece))
    return Markup().join(pieces)


def _operation(document: Mapping[str, Any], base: str, path: str, method: str, each: Mapping[str, Any]) -> Operation:
    body = each.get("requestBody", {}).get("content", {}).get(JSON, {})
    return Operation(
        id=each["operationId"],
        method=method.upper(),
        path=path,
        summary=each["summary"],
        description=each.get("description", ""),
        parameters=tuple(_parameter(parameter) for parameter in each.get("parameters", ())),
        fields=tuple(_members(document["components"]["schemas"][_name(body["schema"])], null=False)) if body else (),
        answers=tuple(_answer(status, answer) for status, answer in each["responses"].items()),
        commands=tuple(_commands(base, path, method, each, body)),
    )


def _parameter(parameter: Mapping[str, Any]) -> Row:
    mark = "required" if parameter["required"] else parameter["in"]
    return Row(parameter["name"], takes(parameter["schema"]), parameter["description"], mark)


def _members(schema: Mapping[str, Any], *, null: bool, prefix: str = "") -> Iterator[Row]:
    """The members of an object, each followed by its own. Without `null` it goes without saying that null may stand."""
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        mark = member.get(DISPOSITION, "")
        if name in required and not null:
            mark = f"{mark}, required"
        yield Row(prefix + name, takes(member, null=null), member.get("description", ""), mark)
        yield from _members(member, null=null, prefix=f"{prefix}{name}.")


def _answer(status: str, answer: Mapping[str, Any]) -> Answer:
    return Answer(
        status,
        HTTPStatus(int(status)).phrase,
        answer["description"],
        tuple(f"{kind}: {takes(content['schema'])}" for kind, content in answer.get("content", {}).items()),
        tuple(answer.get("headers", ())),
    )


def _commands(
    base: str, path: str, method: str, operation: Mapping[str, Any], body: Mapping[str, Any]
) -> Iterator[str]:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(parameter["example"], safe=""))
    address = shlex.quote(base + path)
    if not body:
        yield f"curl -s {address}" if method == "get" else f"curl -s -X {method.upper()} {address}"
    for example in body.get("examples", {}).values():
        sent = shlex.quote(msgspec.json.encode(example["value"]).decode())
        quiet = "-sN" if example["value"].get("stream") else "-s"
        yield f"curl {quiet} {address} \\\n  -H 'Content-Type: application/json' \\\n  -d {sent}"


def _name(schema: Mapping[str, Any]) -> str:
    """The shape that a reference leads to."""
    path: str = schema["$ref"]
    return path.rpartition("/")[2]
