"""What differs between a conversation and its follow-up, and which of it makes their prompts part (ENG-177).

The two are compared as the client sent them, so a difference has a message, a field and a byte. Not every one of them
reaches the prompt (a template shows no call ids), and one that does may stand anywhere in it. So the place is proved
and not guessed: fields of the new conversation are put back to what they were until its prompt is another where the
two had parted. The first field that it takes is the one.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from tandem.engine.shared import shared_length
from tandem.engine.text.clocks import clock_at, reminder_at
from tandem.engine.text.model import Conversation

__all__ = ["Common", "Difference", "DifferingText", "Field", "differences", "explain"]

DifferingText: TypeAlias = Literal[
    "clock", "reminder", "tools_reordered", "tools_changed", "reasoning_dropped", "edited", "other"
]
"""`edited`: the history says something else than it did. `other`: the client's text is the same, the prompt is not."""

Field: TypeAlias = Literal["role", "reasoning_content", "content", "tool_calls", "tools", "chat_template_kwargs"]

Common: TypeAlias = Callable[[Conversation], int | None]
"""Renders a conversation and tells how many tokens it has in common with the new prompt; None: it cannot be."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a conversation differs, never what it says there.

    `message` is an index into the new conversation, None for what belongs to no message. `byte` is where the differing
    text begins, in UTF-8: the clock's or the block's first, else the first that differs; of the text, of text parts
    joined, or of the JSON of `tool_calls` and `tools`.
    """

    message: int | None
    field: Field | None
    byte: int | None
    text: DifferingText


OTHER = Difference(None, None, None, "other")


def explain(last: Conversation, new: Conversation, position: int, common: Common, *, reasoned: bool) -> Difference:
    """The difference that makes the prompt of `new` part from that of `last` at token `position`.

    `reasoned`: there was reasoning in the answer to `last`. Conversations with images are not rendered again: their
    first difference stands for it.
    """
    found = list(differences(last, new))
    if _has_images(last) or _has_images(new):
        return found[0] if found else OTHER

    def mends(count: int) -> bool:
        """Whether the prompt goes on there with the first `count` put back."""
        reached = common(_put_back(new, last, found[:count]))
        return reached is not None and reached <= position

    if found and mends(1):
        return found[0]
    if len(found) > 1 and mends(len(found)):
        return found[bisect_left(range(2, len(found)), True, key=mends) + 1]
    at = _message_at(new, position, common)
    return OTHER if at is None else _of_template(last, new, at, reasoned=reasoned)


def differences(last: Conversation, new: Conversation) -> Iterator[Difference]:
    """All of them in the order of the fields; of each field the first byte. Messages are compared place by place."""
    if last.template_kwargs != new.template_kwargs or last.template_defaults != new.template_defaults:
        yield Difference(None, "chat_template_kwargs", None, "other")
    had, has = _json(last.tools), _json(new.tools)
    if had != has:
        kind: DifferingText = "tools_reordered" if _sorted(last.tools) == _sorted(new.tools) else "tools_changed"
        yield Difference(None, "tools", _bytes(has, shared_length(had, has)), kind)
    for at, (before, after) in enumerate(zip(last.messages, new.messages, strict=False)):
        if before != after:
            yield from _of_message(at, before, after)


def _of_message(at: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    if before["role"] != after["role"]:
        moved = any(reminder_at(_text(message), 0) is not None for message in (before, after))
        yield Difference(at, "role", 0, "reminder" if moved else "edited")
        return
    thought, thinks = (message.get("reasoning_content") or "" for message in (before, after))
    if thought != thinks:
        kind: DifferingText = "edited" if thinks else "reasoning_dropped"
        yield Difference(at, "reasoning_content", _bytes(thinks, shared_length(thought, thinks)), kind)
    said, says = _text(before), _text(after)
    if said != says:
        start, kind = _kind(said, says)
        yield Difference(at, "content", _bytes(says, start), kind)
    called, calls = (_json(message.get("tool_calls") or ()) for message in (before, after))
    if called != calls:
        yield Difference(at, "tool_calls", _bytes(calls, shared_length(called, calls)), "edited")


def _kind(said: str, says: str) -> tuple[int, DifferingText]:
    """Where the differing text begins, and what it is. All before it is the same in both."""
    at = shared_length(said, says)
    for text in (said, says):
        if (start := reminder_at(text, at)) is not None:
            return min(start, at), "reminder"
    clock, was = clock_at(says, at), clock_at(said, at)
    return (at, "edited") if clock is None or was is None else (min(clock, at), "clock")


def _put_back(new: Conversation, last: Conversation, found: Iterable[Difference]) -> Conversation:
    """`new` with these fields as they were. It then has more in common with `last`, and less with itself."""
    messages = list(new.messages)
    changed = new
    for difference in found:
        at, field = difference.message, difference.field
        if at is None and field == "tools":
            changed = replace(changed, tools=last.tools)
        elif at is None:
            kwargs, defaults = last.template_kwargs, last.template_defaults
            changed = replace(changed, template_kwargs=kwargs, template_defaults=defaults)
        elif field == "role":
            messages[at] = last.messages[at]
        else:
            kept = {name: value for name, value in messages[at].items() if name != field}
            messages[at] = kept | {name: value for name, value in last.messages[at].items() if name == field}
    return replace(changed, messages=messages)


def _of_template(last: Conversation, new: Conversation, at: int, *, reasoned: bool) -> Difference:
    """The client repeated what the last prompt showed, and yet they part in message `at`: where the answer came back
    without its reasoning, where the history ends earlier, or by the template's own doing.
    """
    message = new.messages[at]
    if len(new.messages) < len(last.messages) and at == len(new.messages) - 1:
        return Difference(len(new.messages), None, None, "edited")
    thinks = bool(message.get("reasoning_content"))
    dropped = not thinks and reasoned if at >= len(last.messages) else thinks
    if message["role"] == "assistant" and dropped:
        return Difference(at, "reasoning_content", 0, "reasoning_dropped")
    return Difference(at, None, None, "other")


def _message_at(new: Conversation, position: int, common: Common) -> int | None:
    """The message that token `position` is of: the first one without which the prompt does not get beyond it."""
    low, high = 0, len(new.messages)  # with the first `low` messages it does not, with `high` it does
    while high - low > 1:
        middle = (low + high) // 2
        reached = common(replace(new, messages=new.messages[:middle])) or 0
        low, high = (low, middle) if reached > position else (middle, high)
    return low if new.messages else None


def _has_images(conversation: Conversation) -> bool:
    return any(not isinstance(message.get("content") or "", str) for message in conversation.messages)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _bytes(text: str, at: int) -> int:
    return len(text[:at].encode("utf-8", "surrogatepass"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _sorted(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Tools without the order in which they and their keys stand."""
    return sorted(json.dumps(tool, sort_keys=True, default=str) for tool in tools)
