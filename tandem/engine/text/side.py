"""The shapes of clients' own side requests: titles, tags, follow-ups, summaries beside a session's turns (SES-009).

The fake engine answers them all alike and the router tells clients by them, so they stand where both may look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["SIDE_SHAPES", "SideShape", "opening", "side_shape"]

_HEAD = 1_000
"""Characters of a message that are looked at; every opening is shorter."""


@dataclass(frozen=True, slots=True)
class SideShape:
    """`opens` are the beginnings of the first message (`system`) or of the only one (`user`)."""

    id: str
    client: str
    kind: Literal["title", "summary", "tags", "followups"]
    role: Literal["system", "user"]
    opens: tuple[str, ...]


SIDE_SHAPES = (
    SideShape(
        "opencode-title",
        "opencode",
        "title",
        "system",
        ("You are a title generator. You output ONLY a thread title. Nothing else.",),
    ),
    SideShape(
        "opencode-summary",
        "opencode",
        "summary",
        "system",
        ("Summarize what was done in this conversation. Write like a pull request description.",),
    ),
    SideShape(
        "hermes-title",
        "hermes",
        "title",
        "system",
        (
            "You name chat sessions. Given the user's opening message, write a title that lets them find this "
            "conversation again in a list.",
        ),
    ),
    SideShape("openwebui-title", "open-webui", "title", "user", ("### Task: Generate a concise title",)),
    SideShape("openwebui-tags", "open-webui", "tags", "user", ("### Task: Generate 1-3 broad tags",)),
    SideShape(
        "openwebui-followups",
        "open-webui",
        "followups",
        "user",
        ("### Task: Predict 3-5 useful messages", "### Task: Suggest 3-5 relevant follow-up"),
    ),
)


def side_shape(messages: Sequence[Mapping[str, Any]], *, has_tools: bool) -> SideShape | None:
    """The shape of a request, None where it has none. Runs of whitespace count as one space."""
    role, head = opening(messages, has_tools=has_tools)
    return next((shape for shape in SIDE_SHAPES if shape.role == role and head.startswith(shape.opens)), None)


def opening(messages: Sequence[Mapping[str, Any]], *, has_tools: bool) -> tuple[str, str]:
    """The role of the message that may tell a side request, and how it begins; two empty texts where none may.

    It is the first message where that is a system one, or a user's only one.
    """
    if has_tools or not messages:
        return "", ""
    first = messages[0]
    role, content = first.get("role"), first.get("content")
    if not isinstance(content, str) or role not in ("system", "developer", "user") or (role == "user" and messages[1:]):
        return "", ""
    return "user" if role == "user" else "system", " ".join(content[:_HEAD].split())
