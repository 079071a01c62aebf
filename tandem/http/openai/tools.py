"""The fields that offer tools or constrain the answer, checked in form (API, sections 14 and 15).

A constraint that is not served yet is refused: an answer that looked constrained and was not would be worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from tandem.http.openai.checks import as_list, as_object, as_str
from tandem.http.openai.errors import ApiError, invalid

__all__ = ["ToolChoice", "check_constraints", "read_tool_choice", "read_tools"]

ToolChoice: TypeAlias = Literal["auto", "none"]


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
    """`auto` or `none`. Raises a 400 for every other choice (API-118), as the forced ones are not served yet."""
    match value:
        case None | "auto":
            return "auto"
        case "none":
            return "none"
        case "required":
            if not tools:
                raise invalid("tool_choice", 'tool_choice "required" needs tools')
        case {"type": "function", "function": {"name": str(name)}}:
            if name not in [tool["function"]["name"] for tool in tools]:
                raise invalid("tool_choice", "tool_choice names a function that is not in tools")
        case _:
            message = 'tool_choice must be "auto", "none", "required" or {"type": "function", "function": {"name": …}}'
            raise invalid("tool_choice", message)
    raise _unserved("tool_choice", 'a forced tool call; use "auto"')


def check_constraints(body: Mapping[str, Any]) -> None:
    """Raise a 400 for a malformed `response_format` or `structured_outputs` (API-125) and for one not served yet."""
    wants_json = _response_format(body.get("response_format"))
    structured = as_object(body.get("structured_outputs"), "structured_outputs")
    if structured is not None:
        _structured_outputs(structured)
        if wants_json:
            raise invalid(
                "structured_outputs", "structured_outputs and response_format cannot both constrain an answer"
            )
        raise _unserved("structured_outputs", "a constrained answer; leave it out")
    if wants_json:
        raise _unserved("response_format", 'a constrained answer; use {"type": "text"}')


def _response_format(value: Any) -> bool:
    wanted = as_object(value, "response_format")
    if wanted is None:
        return False
    kind = wanted.get("type")
    if kind not in ("text", "json_object", "json_schema"):
        path = "response_format.type"
        raise invalid(path, f"{path} must be one of text, json_object, json_schema")
    if kind == "json_schema":
        path = "response_format.json_schema"
        schema = as_object(wanted.get("json_schema"), path)
        if schema is None or not isinstance(schema.get("schema"), Mapping):
            raise invalid(f"{path}.schema", f"{path}.schema must be a JSON Schema object")
    return bool(kind != "text")


def _structured_outputs(value: Mapping[str, Any]) -> None:
    path = "structured_outputs"
    given = [name for name in ("regex", "choice", "json") if value.get(name) is not None]
    if len(given) != 1:
        raise invalid(path, f"{path} must hold exactly one of regex, choice, json")
    as_str(value.get("regex"), f"{path}.regex")
    as_object(value.get("json"), f"{path}.json")
    choice = as_list(value.get("choice"), f"{path}.choice")
    if choice is not None and not (choice and all(isinstance(text, str) for text in choice)):
        raise invalid(f"{path}.choice", f"{path}.choice must be a list of strings")


def _unserved(param: str, what: str) -> ApiError:
    return invalid(param, f"{param} asks for something that this version does not serve: {what}")
