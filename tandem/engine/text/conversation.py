"""A client's messages as a chat template accepts them (API-040 to API-042). Pure functions of the messages.

Every message is changed by itself, or by its place among the messages before it, so a conversation's earlier turns
render the same on every later one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tandem.engine.text.support import TemplateSupport

__all__ = ["SYSTEM_LINE", "arrange"]

SYSTEM_LINE = "[This is a system message.]"
"""The line before a system message that comes after another role and is rendered as a user turn."""

_CARRIED = ("tool_call_id", "name")


def arrange(messages: Sequence[Mapping[str, Any]], support: TemplateSupport) -> list[dict[str, Any]]:
    """The messages for the template: one head system message, then user, assistant and tool turns only."""
    head = 0
    while head < len(messages) and messages[head]["role"] == "system":
        head += 1
    arranged: list[dict[str, Any]] = []
    if head:
        arranged.append({"role": "system", "content": "\n\n".join(map(_content, messages[:head]))})
    for message in messages[head:]:
        match message["role"]:
            case "system":
                arranged.append({"role": "user", "content": f"{SYSTEM_LINE}\n{_content(message)}"})
            case "assistant":
                arranged.append(_assistant(message, support))
            case "tool" if not support.supports_tool_role:
                content = _framed("<tool_response>\n", _content(message), "\n</tool_response>")
                arranged.append({"role": "user", "content": content})
            case role:
                arranged.append({"role": role, "content": _content(message)} | _carried(message))
    return arranged


def _content(message: Mapping[str, Any]) -> Any:
    """Text, or the parts of a message with images; a system message is always text."""
    return message.get("content") or ""


def _framed(before: str, content: Any, after: str) -> Any:
    """The content with text around it."""
    if isinstance(content, str):
        return f"{before}{content}{after}"
    return [*_text_part(before), *content, *_text_part(after)]


def _text_part(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []


def _carried(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: message[key] for key in _CARRIED if message.get(key) is not None}


def _assistant(message: Mapping[str, Any], support: TemplateSupport) -> dict[str, Any]:
    turn = {"role": "assistant", "content": _content(message)} | _carried(message)
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning and support.reasoning_key:
        turn[support.reasoning_key] = reasoning
    calls = message.get("tool_calls") or ()
    if calls and support.supports_calls:
        turn["tool_calls"] = [_call(call, support) for call in calls]
    elif calls:
        text = "\n".join(_calls_as_text(calls))
        turn["content"] = _framed("", turn["content"], f"\n{text}" if turn["content"] else text)
    return turn


def _call(call: Mapping[str, Any], support: TemplateSupport) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = _arguments(function.get("arguments"), support)
    return {**call, "type": "function", "function": {**function, "arguments": arguments}}


def _arguments(sent: Any, support: TemplateSupport) -> Any:
    """A call's arguments in the form the template takes; what is no JSON object stays the text it is."""
    parsed = _object(sent)
    if support.call_arguments == "text":
        return json.dumps(sent, ensure_ascii=False) if isinstance(sent, Mapping) else _as_text(sent)
    if parsed is not None:
        return parsed
    # A template that walks the arguments needs an object: the text becomes its only value.
    return _as_text(sent) if support.text_arguments else {"arguments": _as_text(sent)}


def _object(sent: Any) -> Mapping[str, Any] | None:
    if sent is None or sent == "":
        return {}
    if isinstance(sent, Mapping):
        return sent
    if not isinstance(sent, str):
        return None
    try:
        parsed = json.loads(sent, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _as_text(sent: Any) -> str:
    return sent if isinstance(sent, str) else json.dumps(sent, ensure_ascii=False)


def _calls_as_text(calls: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Calls for a template that has no place for them, in the most common written form."""
    for call in calls:
        function = call.get("function") or {}
        name = json.dumps(function.get("name") or "", ensure_ascii=False)
        parsed = _object(function.get("arguments"))
        arguments = json.dumps(parsed, ensure_ascii=False) if parsed is not None else _as_text(function["arguments"])
        yield f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>'
