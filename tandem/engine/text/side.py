"""The shapes of clients' own side requests: titles, tags, follow-ups, summaries beside a session's turns (SES-009).

The fake engine answers them all alike and the router tells clients by them, so they stand where both may look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["SIDE_SHAPES", "SideShape", "side_shape"]

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
    if has_tools or not messages:
        return None
    first = messages[0]
    role, content = first.get("role"), first.get("content")
    if not isinstance(content, str) or (role == "user" and len(messages) != 1):
        return None
    role = "system" if role == "developer" else role
    head = " ".join(content[:_HEAD].split())
    return next((shape for shape in SIDE_SHAPES if shape.role == role and head.startswith(shape.opens)), None)
