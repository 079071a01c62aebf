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
    before = newest(messages[:at])
    follows_tool = before is not None and messages[before]["role"] == "tool"
    return "media" if follows_tool and _is_media(messages[at]) else "user"


def newest(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """Index of the last message that is no system message."""
    return next((at for at in range(len(messages) - 1, -1, -1) if messages[at]["role"] not in HEADLESS), None)


def user_messages(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Indices of what a person, or a client in a person's name, has written."""
    return [at for at, message in enumerate(messages) if message["role"] == "user"]


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


def _is_media(message: Mapping[str, Any]) -> bool:
    """Nothing but the caption and an image or a file."""
    content = message.get("content")
    if not isinstance(content, list) or all(part["type"] == "text" for part in content):
        return False
    return text_of(message).strip() == MEDIA_CAPTION
