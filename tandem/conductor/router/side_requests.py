"""Side requests: a client's own titles, tags, follow-ups and summaries beside a session (SES-009 to SES-014)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem.conductor.documents import Router
from tandem.conductor.router.plan import SideServing
from tandem.engine.text.side import opening, side_shape

__all__ = ["SideRequest", "find_side_request", "serve_side"]

BUILT_IN_CAPS = {
    "opencode-title": 64,
    "opencode-summary": 256,
    "hermes-title": 64,
    "openwebui-title": 256,
    "openwebui-tags": 256,
    "openwebui-followups": 512,
}
"""The longest answer of each built-in shape."""


@dataclass(frozen=True, slots=True)
class SideRequest:
    """The shape that a request has."""

    shape: str
    client: str
    kind: str
    cap: int


def find_side_request(messages: Sequence[Mapping[str, Any]], router: Router, *, has_tools: bool) -> SideRequest | None:
    """The first shape that fits, of the router document's list where it has one (SES-010)."""
    structural = router.structural
    if structural.side_requests == "off":
        return None
    if structural.side_shapes is None:
        found = side_shape(messages, has_tools=has_tools)
        return None if found is None else SideRequest(found.id, found.client, found.kind, BUILT_IN_CAPS[found.id])
    role, head = opening(messages, has_tools=has_tools)
    for shape in structural.side_shapes:
        opens = (shape.match,) if isinstance(shape.match, str) else shape.match
        if shape.role == role and any(head.startswith(" ".join(text.split())) for text in opens):
            return SideRequest(shape.id, shape.client, shape.kind, shape.max_tokens)
    return None


def serve_side(side: SideRequest, *, limit: int | None, has_tokens: bool) -> SideServing:
    """Short, and without thinking unless the client gave it tokens (SES-012). `limit` is the client's own."""
    cap = side.cap if limit is None else min(side.cap, limit)
    return SideServing(shape=side.shape, client=side.client, kind=side.kind, cap=cap, thinking=has_tokens)
