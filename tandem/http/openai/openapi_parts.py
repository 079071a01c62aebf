"""What the operations of OpenAPI's document are made of: bodies, parameters, and the responses all routes share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "BEFORE",
    "BODY",
    "ID",
    "KEY",
    "ONLY",
    "OPTIONAL_KEY",
    "POSITIVE",
    "TEXT",
    "body",
    "completed",
    "error_answer",
    "exposition",
    "headers",
    "in_path",
    "json_answer",
    "page",
    "parameter",
    "reference",
    "responses",
]

SCHEMAS = "#/components/schemas/"
KEY = "apiKey"
"""The security scheme of the open routes."""
OPTIONAL_KEY: list[dict[str, list[str]]] = [{}, {KEY: []}]
ONLY = "A 404 without --conductor-config."
"""What the conductor's operations say at their end."""

ID = {"X-Request-Id": "The id that body and log line carry too.", "X-Tandem": "The mode it was served in."}
RETRY = {"Retry-After": "Seconds after which to try again."}
CAUSES: Mapping[int, tuple[str, Mapping[str, str]]] = {
    400: ("The request cannot be served as sent; `param` names the field or header.", {}),
    401: ("The key or the password is missing or wrong.", {"WWW-Authenticate": "Bearer."}),
    403: ("A page of an origin that is not allowed has sent it.", {}),
    404: ("There is no such thing here.", {}),
    408: ("The body did not arrive in time.", {}),
    413: ("The body is larger than `--max-body-mb`.", {}),
    421: ("The host in the Host header is none that `--allowed-hosts` lists.", {}),
    429: ("It waited too long, or too many came.", RETRY),
    500: ("The server failed; the next request is served normally.", {}),
    503: ("No room now: a full queue, no memory, or a server that is shutting down.", RETRY),
}
"""What each status of a refusal says, and its headers."""
ALWAYS = (421, 500)
BODY = (400, 408, 413, 503)


def reference(shape: str) -> dict[str, str]:
    """A reference to a schema of the document."""
    return {"$ref": SCHEMAS + shape}


def parameter(name: str, meaning: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """An optional parameter of the query."""
    return {"name": name, "in": "query", "required": False, "description": meaning, "schema": schema}


def in_path(name: str, meaning: str, schema: Mapping[str, Any], example: str) -> dict[str, Any]:
    """A part of the path."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": meaning,
        "schema": schema,
        "example": example,
    }


TEXT: Mapping[str, Any] = {"type": "string", "maxLength": 200}
POSITIVE: Mapping[str, Any] = {"type": "integer", "minimum": 1, "maximum": 2**53 - 1}
BEFORE = parameter("before", "The `next_before` of the page before this one.", POSITIVE)


def headers(meanings: Mapping[str, tuple[str, tuple[str, ...]]]) -> list[dict[str, Any]]:
    """Optional headers of a request, with the words they take where that is checked."""
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": meaning,
            "schema": {"type": "string", **({"enum": list(words)} if words else {})},
        }
        for name, (meaning, words) in meanings.items()
    ]


def body(shape: str, **examples: Any) -> dict[str, Any]:
    content = {"schema": reference(shape), "examples": {name: {"value": value} for name, value in examples.items()}}
    return {"required": True, "content": {"application/json": content}}


def completed(whole: str, event: str) -> dict[str, Any]:
    answer = json_answer("The answer; with `stream` its events, one a chunk.", whole, ID)
    answer["content"]["text/event-stream"] = {"schema": reference(event)}
    return responses(answer, 401, 403, 429, *BODY, headers=ID)


def responses(success: Mapping[str, Any], *causes: int, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"200": success, **refusals((*causes, *ALWAYS), headers or {})}


def refusals(causes: Iterable[int], headers: Mapping[str, str]) -> dict[str, Any]:
    return {str(status): error_answer(CAUSES[status][0], {**CAUSES[status][1], **headers}) for status in sorted(causes)}


def json_answer(description: str, shape: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    described = {name: {"description": text, "schema": {"type": "string"}} for name, text in (headers or {}).items()}
    return {
        "description": description,
        **({"headers": described} if described else {}),
        "content": {"application/json": {"schema": reference(shape)}},
    }


def error_answer(description: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    return json_answer(description, "ErrorBody", headers)


def exposition(description: str) -> dict[str, Any]:
    """Prometheus' text format."""
    return {"description": description, "content": {"text/plain": {"schema": {"type": "string"}}}}


def page(description: str) -> dict[str, Any]:
    """A page for people."""
    return {"description": description, "content": {"text/html": {"schema": {"type": "string"}}}}
