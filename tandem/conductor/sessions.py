"""Sessions: which conversation a request belongs to, and what is remembered of it (API-070, SES-001, SES-002).

`Sessions` is the one object that more than one actor may use (SES-020): its calls never await. So far it remembers the
date of a session's first request; class, notes and directory join it with the router.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Session", "Sessions", "session_key"]

KEPT = 1_000
"""Sessions remembered; the least recently used go first (SES-007)."""
ID_HEADERS = ("x-session-id", "x-openwebui-chat-id", "x-conversation-id")
HASH_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Session:
    """What is remembered, as it was when it was asked for."""

    key: str
    first_date: datetime.date


class Sessions:
    """The newest sessions by key."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def open(self, key: str, today: datetime.date) -> Session:
        """The session of this key, begun today where it is new."""
        session = self._sessions.setdefault(key, Session(key, today))
        self._sessions.move_to_end(key)
        if len(self._sessions) > self._kept:
            self._sessions.popitem(last=False)
        return session


def session_key(
    headers: Mapping[str, str],
    ids: Sequence[str | None],
    messages: Sequence[Mapping[str, Any]],
    images: Sequence[str] = (),
) -> str:
    """`c:` and the first id the client sent, else `h:` and a hash of the conversation through its first user message.

    `headers` have lower-case names; `ids` are the body's `conversation_id` and `session_id`, in this order; `images`
    are the URLs of the images that the messages name by index, any of which counts as its digest.
    """
    named = [headers.get(name) for name in ID_HEADERS]
    for value in (*named, *ids):
        if value:
            return f"c:{value}"
    head: list[tuple[Any, Any]] = []
    for message in messages:
        head.append((message.get("role"), _shown(message.get("content"), images)))
        if message.get("role") == "user":
            break
    canonical = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
    return f"h:{_digest(canonical)[:HASH_DIGITS]}"


def _shown(content: Any, images: Sequence[str]) -> Any:
    """The content as it is hashed."""
    if not isinstance(content, list):
        return content
    return [{"image": _digest(images[part["index"]])} if part["type"] == "image" else part for part in content]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
