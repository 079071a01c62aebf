"""What a class question reads of the new user message: its head, its tail, and where asked for a line on the session.

The request of a long message stands at its beginning or at its end, so a cut takes out the middle (RTR-012). Every
stage has a size of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from tandem.conductor.router.history import extensions, newest_checker, newest_tools
from tandem.conductor.router.turns import text_of
from tandem.conductor.sessions import SessionView

__all__ = ["CUT", "context_line", "digest", "newest_user_text"]

CUT: Final = "\n[…]\n"
LINE_CHARS: Final = 120
LAST_TOOLS: Final = 3
LAST_CALLS: Final = 8


def digest(text: str, chars: int, line: str = "") -> str:
    """At most `chars` characters of `text`, then `line`, which the tail makes room for (RTR-013)."""
    after = f"\n{line}" if line else ""
    if len(text) + len(after) <= chars:
        return text + after
    head = chars // 4
    tail = max(chars - head - len(CUT) - len(after), 0)
    return text[:head] + CUT + text[len(text) - tail :] + after


def newest_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
    return next((text_of(message) for message in reversed(messages) if message.get("role") == "user"), "")


def context_line(messages: Sequence[Mapping[str, Any]], session: SessionView) -> str:
    """What has gone before, in at most 120 characters: no path, file name or file text is ever in it (RTR-013)."""
    known = "none" if session.class_id is None else f"{session.class_id}@{session.confidence or 0.0:.2f}"
    checker = newest_checker(messages)
    verdict = "none" if checker is None else f"{checker.name}:{checker.verdict}"
    compaction: Literal["yes", "no"] = "yes" if session.has_been_compacted else "no"
    tools = ",".join(newest_tools(messages, LAST_TOOLS)) or "none"
    files = ",".join(extensions(messages, LAST_CALLS)) or "none"
    return f"class={known} tools={tools} files={files} checker={verdict} compaction={compaction}"[:LINE_CHARS]
