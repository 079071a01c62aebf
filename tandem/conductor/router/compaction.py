"""Compaction requests: a client has its history summarised, to go on with the summary alone (SES-016 to SES-018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tandem.conductor.router.client_kind import ClientKind
from tandem.engine.text.side import opening

__all__ = ["COMPACTION_SHAPES", "is_compaction"]

COMPACTION_SHAPES = (
    "You are a context summarization agent. You are given a conversation between a user and an agent.",
)
"""How a system message of a compaction begins, from whichever client."""
LEAST_CHARS = 2_000
"""Characters of the user message that holds the history, where nothing else tells it from a chat (SES-017)."""


def is_compaction(messages: Sequence[Mapping[str, Any]], kind: ClientKind, *, has_tools: bool) -> bool:
    """Whether the request has one of the two shapes."""
    if has_tools:
        return False
    if kind == "opencode" and len(messages) == 1 and messages[0]["role"] == "user":
        return _chars(messages[0]) >= LEAST_CHARS
    if len(messages) != 2 or messages[1]["role"] != "user":
        return False
    role, head = opening(messages, has_tools=False)
    return role == "system" and head.startswith(COMPACTION_SHAPES)


def _chars(message: Mapping[str, Any]) -> int:
    content = message.get("content") or ""
    if isinstance(content, str):
        return len(content)
    return sum(len(part["text"]) for part in content if part["type"] == "text")
