"""Takes framed lines out of the assistant messages that a client sends back, before anything reads them (STA-009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tandem.conductor.lines.frame import without_lines

__all__ = ["clean"]

FIELDS = ("reasoning_content", "reasoning", "content")


def clean(messages: Sequence[Mapping[str, Any]]) -> tuple[tuple[Mapping[str, Any], ...], int]:
    """The messages, and how many characters were removed. A message without a line is handed on as it is.

    Reasoning that was lines alone is no reasoning: the field goes.
    """
    cleaned = [_clean(message) if message.get("role") == "assistant" else (message, 0) for message in messages]
    return tuple(message for message, _ in cleaned), sum(removed for _, removed in cleaned)


def _clean(message: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
    texts = {name: value for name in FIELDS if isinstance(value := message.get(name), str)}
    kept = {name: without_lines(text) for name, text in texts.items()}
    removed = sum(len(texts[name]) - len(text) for name, text in kept.items())
    if not removed:
        return message, 0
    changed = {**message, **kept}
    for name in FIELDS[:2]:
        if kept.get(name) != texts.get(name) and not kept[name].strip():
            del changed[name]
    return changed, removed
