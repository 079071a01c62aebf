"""The key of a session: the client's id of the conversation, else a hash of its head (API-070, SES-001, SES-002)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["HEAD_PREFIX", "ID_HEADERS", "session_key"]

ID_HEADERS = ("x-session-id", "x-openwebui-chat-id", "x-conversation-id")
HEAD_PREFIX = "h:"
HASH_DIGITS = 16
LONGEST_ID = 256
"""A longer one counts by its hash: keys stand in every row, and a thousand are kept."""


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
            return f"c:{value if len(value) <= LONGEST_ID else _digest(value)}"
    head: list[tuple[Any, Any]] = []
    for message in messages:
        head.append((message.get("role"), _shown(message.get("content"), images)))
        if message.get("role") == "user":
            break
    canonical = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
    return f"{HEAD_PREFIX}{_digest(canonical)[:HASH_DIGITS]}"


def _shown(content: Any, images: Sequence[str]) -> Any:
    """The content as it is hashed."""
    if not isinstance(content, list):
        return content
    return [{"image": _digest(images[part["index"]])} if part["type"] == "image" else part for part in content]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
