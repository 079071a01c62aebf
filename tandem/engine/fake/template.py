"""The fake's chat template, in the manner of Qwen's: ChatML turns, tools and calls in XML form.

The thinking block is open at the prompt's end where the script says that it begins inside one, closed where the
client turned thinking off, else left to the script.

It gives segments, a special token's id or text, so that no text of a client can ever become a marker (ENG-178). An
image is its number of `<|image_pad|>`, one a prompt row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from tandem.engine.fake import vocabulary as v
from tandem.engine.text.conversation import arrange
from tandem.engine.text.images import LoadedImages
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Thinking
from tandem.engine.text.support import TemplateSupport

__all__ = ["Segment", "segments", "thinking_of"]

Segment: TypeAlias = str | int

_SUPPORT = TemplateSupport(
    supports_tools=True, supports_calls=True, supports_tool_role=True, reasoning_key="reasoning_content"
)

_HEADS: Mapping[Thinking, tuple[Segment, ...]] = {
    "open": (v.THINK, "\n"),
    "free": (),
    "off": (v.THINK, "\n\n", v.THINK_END, "\n\n"),
}

_TOOLS_HEAD = "# Tools\n\nThese functions may be called, each given by its JSON schema:\n\n<tools>\n"
_TOOLS_TAIL = (
    "\n</tools>\n\nTo call one, write it in this form, as often as needed and with nothing after the last:\n\n"
    "<tool_call>\n<function=name>\n<parameter=key>\nvalue\n</parameter>\n</function>\n</tool_call>"
)


def thinking_of(conversation: Conversation, *, begins_inside: bool) -> Thinking:
    """How the prompt leaves the block for a script that begins inside it, or does not."""
    if conversation.template_kwargs.get("enable_thinking") is False:
        return "off"
    return "open" if begins_inside else "free"


def segments(conversation: Conversation, thinking: Thinking) -> Iterator[Segment]:
    """The prompt of a new assistant turn."""
    messages = arrange(conversation.messages, _SUPPORT)
    has_head = bool(messages) and messages[0]["role"] == "system"
    if has_head or conversation.tools:
        yield from _system(messages[0]["content"] if has_head else "", conversation.tools)
    before = ""
    for message in messages[has_head:]:
        if before == "tool" and message["role"] != "tool":
            yield from _turn_end()
        opens = message["role"] != before or message["role"] != "tool"
        yield from _message(message, conversation.images, opens=opens)
        before = message["role"]
    if before == "tool":
        yield from _turn_end()
    yield from (v.IM_START, "assistant\n")
    yield from _HEADS[thinking]


def _system(text: str, tools: Sequence[Mapping[str, Any]]) -> Iterator[Segment]:
    parts = [text] if text else []
    if tools:
        parts.append(_TOOLS_HEAD + "\n".join(map(_json, tools)) + _TOOLS_TAIL)
    yield from (v.IM_START, "system\n" + "\n\n".join(parts))
    yield from _turn_end()


def _message(message: Mapping[str, Any], images: LoadedImages, *, opens: bool) -> Iterator[Segment]:
    """One message; results of tools that follow each other share a user turn, which the caller ends."""
    match message["role"]:
        case "tool":
            yield from (v.IM_START, "user") if opens else ()
            yield from ("\n", v.TOOL_RESPONSE, *_content("\n", message, images), "\n", v.TOOL_RESPONSE_END)
        case "assistant":
            yield from (v.IM_START, "assistant\n")
            if reasoning := message.get("reasoning_content"):
                yield from (v.THINK, "\n" + reasoning.strip("\n") + "\n", v.THINK_END, "\n\n")
            yield from _content("", message, images)
            for at, call in enumerate(message.get("tool_calls") or ()):
                yield from _call(call["function"], leads=bool(at or message["content"]))
            yield from _turn_end()
        case role:
            yield from (v.IM_START, *_content(f"{role}\n", message, images))
            yield from _turn_end()


def _content(head: str, message: Mapping[str, Any], images: LoadedImages) -> Iterator[Segment]:
    """The content behind `head`."""
    content = message["content"]
    if isinstance(content, str):
        yield head + content
        return
    yield head
    for part in content:
        if part["type"] == "text":
            yield part["text"]
        else:
            yield from repeat(v.IMAGE_PAD, images.rows_of(part["index"]))


def _call(function: Mapping[str, Any], *, leads: bool) -> Iterator[Segment]:
    """Arguments that are no JSON object stand as they were sent."""
    arguments = function.get("arguments")
    body = f"\n<function={function.get('name') or ''}>\n"
    if isinstance(arguments, Mapping):
        body += "".join(f"<parameter={key}>\n{_value(value)}\n</parameter>\n" for key, value in arguments.items())
    else:
        body += f"{arguments}\n"
    yield from ("\n" if leads else "", v.TOOL_CALL, f"{body}</function>\n", v.TOOL_CALL_END)


def _turn_end() -> Iterator[Segment]:
    yield from (v.IM_END, "\n")


def _value(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
