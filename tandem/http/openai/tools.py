"""The fields that offer tools or constrain the answer, checked and read into the engine's terms (API, 14 and 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tandem.engine.grammar.constraints import (
    Calls,
    CallsOrDocument,
    Choice,
    Constraint,
    Document,
    JsonObject,
    JsonSchema,
    Regex,
)
from tandem.http.openai.checks import as_list, as_object, as_str
from tandem.http.openai.errors import invalid

__all__ = [
    "MAX_CALLS",
    "Named",
    "ToolChoice",
    "constrain",
    "is_json",
    "read_document",
    "read_tool_choice",
    "read_tools",
]

MAX_CALLS = 16
"""Calls that a forced answer may hold (API-119)."""


@dataclass(frozen=True, slots=True)
class Named:
    """`tool_choice` names this function."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | Named


def read_tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The tools as sent; an empty list is none. Raises a 400 naming `tools[i]` (API-104)."""
    return tuple(_tool(tool, f"tools[{i}]") for i, tool in enumerate(as_list(value, "tools") or ()))


def _tool(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or value.get("type") != "function":
        raise invalid(path, f'{path} must be an object whose type is "function"')
    function = as_object(value.get("function"), f"{path}.function")
    name = function.get("name") if function else None
    if function is None or not isinstance(name, str) or not name:
        raise invalid(path, f"{path}.function must be an object with a name")
    as_str(function.get("description"), f"{path}.function.description")
    as_object(function.get("parameters"), f"{path}.function.parameters")
    return value


def read_tool_choice(value: Any, tools: Sequence[Mapping[str, Any]]) -> ToolChoice:
    """Raises a 400 naming `tool_choice` (API-118)."""
    match value:
        case None | "auto":
            return "auto"
        case "none":
            return "none"
        case "required":
            if not tools:
                raise invalid("tool_choice", 'tool_choice "required" needs tools')
            return "required"
        case {"type": "function", "function": {"name": str(name)}}:
            if name not in [tool["function"]["name"] for tool in tools]:
                raise invalid("tool_choice", "tool_choice names a function that is not in tools")
            return Named(name)
        case _:
            message = 'tool_choice must be "auto", "none", "required" or {"type": "function", "function": {"name": …}}'
            raise invalid("tool_choice", message)


def read_document(body: Mapping[str, Any]) -> Document | None:
    """What `response_format` or `structured_outputs` makes of the answer. Raises a 400 naming the field (API-125)."""
    by_format = _response_format(body.get("response_format"))
    structured = as_object(body.get("structured_outputs"), "structured_outputs")
    if structured is None:
        return by_format
    document = _structured_outputs(structured)
    if by_format is not None:
        raise invalid("structured_outputs", "structured_outputs and response_format cannot both constrain an answer")
    return document


def is_json(document: Document | None) -> bool:
    """Whether the answer is to be JSON, as against a regex or a choice (API-130)."""
    return isinstance(document, JsonObject | JsonSchema)


def constrain(
    document: Document | None,
    tools: Sequence[Mapping[str, Any]],
    choice: ToolChoice,
    *,
    parallel: bool | None,
    tool_format: Literal["xml", "pythonic"],
) -> Constraint | None:
    """The language of the answer: calls where they are forced, else calls or the document, else the document alone.

    Raises a 400 where the model's calls have no language to force them into (API-135).
    """
    if not tools or choice == "none":
        return document
    if choice == "auto" and document is None:
        return None
    if tool_format != "xml":
        param = "tools" if document is not None else "tool_choice"
        raise invalid(param, f"{param} cannot be constrained for a model whose calls are not in the XML form")
    if isinstance(choice, Named):
        return Calls(tuple(tools), (choice.name,), MAX_CALLS if parallel else 1)
    calls = Calls(tuple(tools), None, 1 if parallel is False else MAX_CALLS)
    return calls if choice == "required" or document is None else CallsOrDocument(calls, document)


def _response_format(value: Any) -> JsonObject | JsonSchema | None:
    wanted = as_object(value, "response_format")
    if wanted is None:
        return None
    match wanted.get("type"):
        case "text":
            return None
        case "json_object":
            return JsonObject()
        case "json_schema":
            path = "response_format.json_schema"
            given = as_object(wanted.get("json_schema"), path)
            schema = None if given is None else given.get("schema")
            if not isinstance(schema, Mapping):
                raise invalid(f"{path}.schema", f"{path}.schema must be a JSON Schema object")
            return JsonSchema(schema, f"{path}.schema")
        case _:
            path = "response_format.type"
            raise invalid(path, f"{path} must be one of text, json_object, json_schema")


def _structured_outputs(value: Mapping[str, Any]) -> Document:
    path = "structured_outputs"
    given = [name for name in ("regex", "choice", "json") if value.get(name) is not None]
    if len(given) != 1:
        raise invalid(path, f"{path} must hold exactly one of regex, choice, json")
    pattern = as_str(value.get("regex"), f"{path}.regex")
    if pattern is not None:
        return Regex(pattern, f"{path}.regex")
    texts = as_list(value.get("choice"), f"{path}.choice")
    if texts is not None:
        if not (texts and all(isinstance(text, str) for text in texts)):
            raise invalid(f"{path}.choice", f"{path}.choice must be a list of strings")
        return Choice(tuple(texts), f"{path}.choice")
    schema = as_object(value.get("json"), f"{path}.json")
    assert schema is not None
    return JsonSchema(schema, f"{path}.json")
