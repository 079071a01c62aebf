"""The messages of a chat request, checked and brought to one form; nothing is rearranged (API, section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tandem.http.openai.checks import as_list, as_object, as_str
from tandem.http.openai.errors import invalid
from tandem.http.openai.images import ImageParts

__all__ = ["read_messages"]

ROLES = ("system", "developer", "user", "assistant", "tool")


def read_messages(value: Any, images: ImageParts | None = None) -> tuple[dict[str, Any], ...]:
    """Messages in the form of `Conversation`: `developer` is `system`, `content` a string, calls in OpenAI's form.

    Text parts are joined without a separator, as the Qwen templates join them. A message with images keeps its parts:
    `content` is a list of `{"type": "text", "text": …}` and `{"type": "image", "index": i}`, and `images` holds the
    image of index i afterwards; without `images` nothing here sees. Raises a 400 that names the message or part at
    fault.
    """
    messages = as_list(value, "messages")
    if not messages:
        raise invalid("messages", "messages must be a list of at least one message")
    images = ImageParts() if images is None else images
    return tuple(_message(message, i, images) for i, message in enumerate(messages))


def _message(value: Any, index: int, images: ImageParts) -> dict[str, Any]:
    path = f"messages[{index}]"
    message = as_object(value, path)
    if message is None:
        raise invalid(path, f"{path} must be an object")
    role = message.get("role")
    if role not in ROLES:
        raise invalid(f"{path}.role", f"{path}.role must be one of {', '.join(ROLES)}")
    read: dict[str, Any] = {
        "role": "system" if role == "developer" else role,
        "content": _content(message.get("content"), index, role, images),
    }
    if role == "assistant":
        if reasoning := _reasoning(message, path):
            read["reasoning_content"] = reasoning
        if calls := _calls(message.get("tool_calls"), f"{path}.tool_calls"):
            read["tool_calls"] = calls
    names = ("name", "tool_call_id") if role == "tool" else ("name",)
    for name in names:
        if (text := as_str(message.get(name), f"{path}.{name}")) is not None:
            read[name] = text
    return read


def _content(value: Any, message: int, role: str, images: ImageParts) -> str | list[dict[str, Any]]:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [_part(part, message, i, role, images) for i, part in enumerate(value)]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        return parts if len(texts) < len(parts) else "".join(texts)
    if value is None and role == "assistant":
        return ""
    path = f"messages[{message}].content"
    raise invalid(path, f"{path} must be a string or a list of text and image_url parts")


def _part(value: Any, message: int, index: int, role: str, images: ImageParts) -> dict[str, Any]:
    path = f"messages[{message}].content[{index}]"
    part = as_object(value, path)
    kind = part.get("type") if part else None
    if part is None or kind not in ("text", "image_url"):
        raise invalid(path, f'{path} must be an object whose type is "text" or "image_url"')
    if kind == "image_url":
        return images.read(part, message, index, role)
    text = as_str(part.get("text"), f"{path}.text")
    if text is None:
        raise invalid(f"{path}.text", f"{path}.text must be a string")
    return {"type": "text", "text": text}


def _reasoning(message: Mapping[str, Any], path: str) -> str | None:
    """`reasoning_content`, else its alias (API-042). An empty string says nothing and counts as absent."""
    texts = [as_str(message.get(name), f"{path}.{name}") for name in ("reasoning_content", "reasoning")]
    return texts[0] or texts[1]


def _calls(value: Any, path: str) -> list[dict[str, Any]]:
    return [_call(call, f"{path}[{i}]") for i, call in enumerate(as_list(value, path) or ())]


def _call(value: Any, path: str) -> dict[str, Any]:
    call = as_object(value, path) or {}
    function = as_object(call.get("function"), f"{path}.function")
    if function is None:
        raise invalid(f"{path}.function", f"{path}.function must be an object with a name and arguments")
    name = as_str(function.get("name"), f"{path}.function.name")
    if name is None:
        raise invalid(f"{path}.function.name", f"{path}.function.name must be a string")
    call_id = as_str(call.get("id"), f"{path}.id")
    return {
        **({} if call_id is None else {"id": call_id}),
        "type": "function",
        "function": {"name": name, "arguments": _arguments(function.get("arguments"), f"{path}.function.arguments")},
    }


def _arguments(value: Any, path: str) -> str:
    """Arguments as the string OpenAI has; an object is written out, none at all is the empty object."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, dict):
        return msgspec.json.encode(value or {}).decode("utf-8")
    raise invalid(path, f"{path} must be a string or an object")
