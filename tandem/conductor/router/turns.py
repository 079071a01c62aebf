"""What kind of turn a request is, told by its shape alone (RTR-002, RTR-003)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tandem.conductor.router.plan import TurnKind

__all__ = ["HEADLESS", "MEDIA_CAPTION", "kind_of_turn", "newest", "newest_text", "text_of", "user_messages"]

HEADLESS = ("system", "developer")
MEDIA_CAPTION = "Attached media from tool result:"
"""What opencode writes above an image that a tool has returned."""


def kind_of_turn(messages: Sequence[Mapping[str, Any]]) -> TurnKind:
    """`tool`, `media`, `assistant` or `user`; system messages at the end are skipped."""
    at = newest(messages)
    if at is None:
        return "user"
    role = messages[at]["role"]
    if role == "tool":
        return "tool"
    if role == "assistant":
        return "assistant"
    return "media" if _is_media(messages, at) else "user"


def newest(messages: Sequence[Mapping[str, Any]], end: int | None = None) -> int | None:
    """Index of the last message, of those before `end`, that is no system message."""
    last = len(messages) if end is None else end
    return next((at for at in range(last - 1, -1, -1) if messages[at]["role"] not in HEADLESS), None)


def user_messages(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Indices of what a person has written; the images of a tool's result go on with the turn that called it."""
    users = (at for at, message in enumerate(messages) if message["role"] == "user")
    return [at for at in users if not _is_media(messages, at)]


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, its parts one below the other."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def newest_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of the last message that is no system message."""
    at = newest(messages)
    return "" if at is None else text_of(messages[at])


def _is_media(messages: Sequence[Mapping[str, Any]], at: int) -> bool:
    """Behind a tool's result nothing but the caption and an image or a file."""
    content = messages[at].get("content")
    if not isinstance(content, list) or all(part["type"] == "text" for part in content):
        return False
    before = newest(messages, at) if text_of(messages[at]).strip() == MEDIA_CAPTION else None
    return before is not None and messages[before]["role"] == "tool"
