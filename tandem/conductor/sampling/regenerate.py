"""Whether a request asks for another answer to what was answered before (SMP-001, SMP-004). Pure.

The same conversation again up to the newest user message, or up to an earlier one that was answered: its digest is that
of a turn the session has begun. A system prompt and the reasoning do not count in it. An edited message, a conversation
that ends with an answer and a tool round have a digest that no user turn had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

from tandem.conductor.router.client_kind import ClientKind

__all__ = ["Asked", "regenerate"]

KINDS: frozenset[ClientKind] = frozenset({"open-webui", "chat-app"})
"""Clients whose repeats are a person's wish; a benchmark's are not."""
HEADER = "x-tandem-regenerate"
KEPT_S = 24 * 3600.0


class Asked(Protocol):
    """A user turn that was begun before."""

    @property
    def digest(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def has_answer(self) -> bool: ...


def regenerate(
    headers: Mapping[str, str], kind: ClientKind, newest: str | None, asked: Iterable[Asked], now: float
) -> Literal["header", "conversation"] | None:
    """By what the request is a regenerate, if it is one. `newest` is its digest if a user's message ends it."""
    said = headers.get(HEADER, "").strip()
    if said in ("0", "1"):
        return "header" if said == "1" else None
    if kind not in KINDS or newest is None:
        return None
    again = (each for each in asked if each.digest == newest and each.has_answer)
    return "conversation" if any(now - each.at < KEPT_S for each in again) else None
