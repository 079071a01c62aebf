"""The templates of state lines (STA-004, STA-005, STA-052): the only texts that are a line without a sentinel.

A template is a sentence with fields, and each field has a pattern of what may stand in it. So one table both says a
line and recognises it, and `say` never makes one that is not found again: a value that its pattern does not take is
told all the same, and the frame gives such a text its sentinel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeAlias, get_args

from tandem.conductor.documents.profiles import Kind
from tandem.conductor.documents.words import Level
from tandem.engine.text.reading.deltas import Line

__all__ = ["ANY", "FINDINGS", "KINDS", "MEMORY_VERBS", "REASONS", "REMINDERS", "WHERE", "WHYS", "TemplateName", "say"]

KINDS: Final[tuple[str, ...]] = get_args(Kind)
TemplateName: TypeAlias = str
"""The kind, or for a second template of a kind another word."""

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "running": "another request is running",
        "side": "a client's title request runs first",
        "own": "the service finishes its background work first",
        "deciding": "the service is deciding how to handle the request",
        "memory": "memory for another request, {gib} GiB short",
    }
)
"""Why somebody waits (STA-005, SCH-028)."""
WHERE: Final = ("the thinking", "the answer", "a tool call")
WHYS: Final[Mapping[str, str]] = MappingProxyType(
    {"E1": "there was no answer yet", "E2": "nothing showed that the work was done"}
)
FINDINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "C1": "it cannot be undone",
        "C2": "it breaks a rule of the project",
        "C3": "the same call again",
        "C4": "it could not be read",
        "C5": "several changes at once",
    }
)
REMINDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "S1": "a gate that keeps failing",
        "S2": "the files to read again",
        "S4": "the time without progress",
        "S5": "what is still to be done",
        "A1": "a call that ended in a repetition",
        "outcome": "how the last attempt went",
    }
)
MEMORY_VERBS: Final = ("remembered", "proposed", "forgot")

COUNT = r"\d{1,3}(?:,\d{3})*"
SPAN = r"(?:\d+ min )?\d+ s"
ETA = r"about \d+ (?:s|min)"
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Of a package (`documents.words.Name`) or a tool."""
FREE = r"[^\n\u2060]{1,200}"


def _one_of(words: Mapping[str, str] | tuple[str, ...]) -> str:
    texts = words.values() if isinstance(words, Mapping) else words
    return "(?:" + "|".join(re.escape(text).replace(r"\{gib\}", r"\d+\.\d") for text in texts) + ")"


def _joined(item: str) -> str:
    return f"{item}(?:, {item})*"


@dataclass(frozen=True)
class _Template:
    kind: str
    text: str
    fields: Mapping[str, str]

    @cached_property
    def pattern(self) -> str:
        """What the sentence can be, as a regular expression."""
        found = re.escape(self.text)
        for name, each in self.fields.items():
            found = found.replace(re.escape("{" + name + "}"), f"(?:{each})")
        return found


_TEMPLATES: Final[Mapping[TemplateName, _Template]] = MappingProxyType(
    {
        "route": _Template(
            "route", "{label}, {effort} effort", {"label": r"[^\n\u2060]{1,60}", "effort": _one_of(get_args(Level))}
        ),
        "packages": _Template("packages", "using {names}", {"names": _joined(NAME)}),
        "compaction": _Template("compaction", "history compacted, same task", {}),
        "queue": _Template("queue", "in line at {n}: {reason}", {"n": COUNT, "reason": _one_of(REASONS)}),
        "queue_eta": _Template(
            "queue_eta",
            "in line at {n}: {reason}, {eta} expected",
            {"n": COUNT, "reason": _one_of(REASONS), "eta": ETA},
        ),
        "prefill": _Template(
            "prefill",
            "reading the prompt, {done} of {tokens} tokens, {eta} to go",
            {"done": COUNT, "tokens": COUNT, "eta": ETA},
        ),
        "thinking": _Template(
            "thinking", "thinking for {elapsed}, {tokens} tokens", {"elapsed": SPAN, "tokens": COUNT}
        ),
        "thought": _Template("thinking", "thought for {elapsed}, {tokens} tokens", {"elapsed": SPAN, "tokens": COUNT}),
        "cap": _Template("cap", "thinking closed at {n} tokens", {"n": COUNT}),
        "loop": _Template("loop", "stopped a repetition in {where}", {"where": _one_of(WHERE)}),
        "continue": _Template("continue", "the turn goes on: {why}", {"why": _one_of(WHYS)}),
        "tool_check": _Template(
            "tool_check",
            "checked {tools}: {finding}, written again",
            {"tools": _joined(NAME), "finding": _one_of(FINDINGS)},
        ),
        "note": _Template("note", "reminded of {what}", {"what": _one_of(REMINDERS)}),
        "memory": _Template("memory", "{verb}: {what}", {"verb": _one_of(MEMORY_VERBS), "what": FREE}),
    }
)

ANY: Final = "(?:" + "|".join(template.pattern for template in _TEMPLATES.values()) + ")"
"""Any text of the list."""
_MOST = 300
"""Characters of a line's text."""


def say(template: TemplateName, **values: str | int) -> Line:
    """The line of a template. Numbers get their thousands marked; a value is one line of text, whatever it was."""
    found = _TEMPLATES[template]
    text = found.text.format(**{name: _shown(value) for name, value in values.items()})
    return Line(found.kind, text[:_MOST])


def _shown(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else " ".join(value.replace("\u2060", "").split())
