"""What a session's model has read that its client did not send, written out (NOTE-011, OBS-112)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tandem.store.journal_reads import DECISIONS, Export

__all__ = ["as_json", "as_markdown"]

GONE = "(its text is no longer kept)"


def as_json(key: str, found: Export) -> dict[str, Any]:
    return {"session": key, "events": found.events, "texts": found.texts, "cut": found.cut}


def as_markdown(key: str, found: Export) -> str:
    """A chapter for each row, with every hidden text at its place; a note in full where it was first read."""
    lines = [f"# Session {_code(key)}", ""]
    if found.cut:
        lines += ["Older requests than these are left out.", ""]
    for event in found.events:
        lines += [*_head(event), *_notes(event, found.texts), *_act(event, found.texts)]
    return "\n".join(lines).rstrip() + "\n"


def _head(event: Mapping[str, Any]) -> Iterator[str]:
    at = datetime.datetime.fromtimestamp(event["ts_ms"] / 1e3, datetime.UTC).isoformat(timespec="seconds")
    yield f"## {at} {_code(event['request_id'] or '')}"
    yield ""
    names = (
        "kind",
        "task",
        "sp",
        "decision",
        "action",
        "mode",
        "profile",
        "class",
        "reason",
        "score",
        "effort",
        "outcome",
        "next_checker",
        "hidden_tokens",
    )
    # What a router's row says by its kind and class is not said twice.
    said = {event["kind"], event["class"]} if event["kind"] in DECISIONS else set()
    for name in names:
        value = event[name]
        if value is not None and not (name in ("task", "decision") and value in said):
            yield f"- {name}: {_code(str(value))}"
    yield ""


def _notes(event: Mapping[str, Any], texts: Mapping[str, str]) -> Iterator[str]:
    for note in (event["detail"] or {}).get("notes", ()):
        parts = ", ".join(map(_code, note.get("parts", ())))
        yield f"### {note.get('kind')} note at token {note.get('position')}, {note.get('tokens')} tokens: {parts}"
        yield ""
        if note.get("kind") == "new":
            yield from _block(texts.get(note.get("hash"), GONE))
        else:
            yield f"The same text as before, {_code(str(note.get('hash')))}."
        yield ""


def _act(event: Mapping[str, Any], texts: Mapping[str, str]) -> Iterator[str]:
    """What the monitor had the model read."""
    if event["kind"] in DECISIONS or event["text_hash"] is None:
        return
    yield f"### hidden text at token {event['position']}, {event['hidden_tokens']} tokens"
    yield ""
    yield from _block(texts.get(event["text_hash"], GONE))
    yield ""


def _block(text: str) -> Iterator[str]:
    """Fenced by more backquotes than the text has in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    yield from (fence, text.strip("\n"), fence)


def _code(text: str) -> str:
    """In one line, as it is."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"
