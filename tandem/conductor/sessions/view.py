"""What is remembered of a session, as a frozen view, and the deltas by which it changes (SES-007, SES-020)."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tandem.conductor.monitor.state import NOTHING_SEEN, MonitorDelta, Monitored
from tandem.conductor.router.notes import LiveNote

__all__ = ["Answered", "Found", "PackagePick", "SessionDelta", "SessionFacts", "SessionView", "SizeSignals"]

Found: TypeAlias = Literal["id", "new", "continued", "alias"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSignals:
    """What sizes a task (EFF-005), since the session began or was compacted."""

    first_tokens: int | None = None
    """Prompt tokens of the first request, as the client counts them."""
    added_tokens: int = 0
    files: frozenset[str] = frozenset()
    """Hashes of the paths its calls touched."""
    gates: int = 0
    """The largest count in one checker's line."""
    turns: int = 0
    size: Literal["small", "medium", "large"] = "small"
    """The largest so far."""


@dataclass(frozen=True, slots=True)
class PackagePick:
    """The last package question's answer; `name` is None where it was none of them (PKG-005)."""

    class_id: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Answered:
    """A user turn: the same messages again are a regenerate (SMP-001) and get what they got (SMP-002)."""

    digest: str
    """Of the messages, system ones left out."""
    at: float
    place: str | None = None
    """Where its note went, or would have gone."""
    class_id: str | None = None
    has_answer: bool = True
    """False where it was refused before anything was generated: the same messages again are then no regenerate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What of a request tells its session. The defaults are those of a request that is served raw."""

    key: str
    """Of `session_key`: `c:` and the client's id, or `h:` and its head's hash."""
    today: datetime.date
    client: str = ""
    """Who sends, and with what: only their own conversations are continued by alias."""
    purpose: Literal["turn", "side", "compaction"] = "turn"
    """A side request opens no session; a compaction opens the one that it compacts."""
    starts: bool = False
    """Its last message is its only user message (SES-003)."""
    first_turn: str | None = None
    """Digest of the complete first turn where there is a second user message (SES-004)."""
    head_texts: tuple[str, ...] = field(default=(), repr=False)
    """The texts of the head: one of them may hold a summary that the engine wrote (SES-006)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session as it was when it was opened."""

    key: str
    first_date: datetime.date
    found: Found = "new"
    head: str | None = None
    """The head under which it was found; None for a client's id."""
    class_id: str | None = None
    confidence: float | None = None
    turns: int = 0
    notes: tuple[LiveNote, ...] = ()
    """All that are kept, oldest first; which of them are live a request's messages tell."""
    package: PackagePick | None = None
    size: SizeSignals = SizeSignals()
    compacted: bool = False
    """A compaction was answered and no user turn has come since (SES-019)."""
    has_been_compacted: bool = False
    answered: tuple[Answered, ...] = ()
    """The last 32 user turns that were answered or begun to be."""
    asked_before: tuple[Answered, ...] = ()
    """Of a new conversation, those of its sender's others that began with the same words (SMP-001)."""
    escaping_since: int = 0
    """The turn since which it is sampled to leave a loop (SMP-008); 0: it is not."""
    token: str | None = None
    """The session's own secret for scripts; minted by later work (ADR-003)."""
    monitor: Monitored = NOTHING_SEEN
    """What the monitor remembers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDelta:
    """Changes to one session; what is None or empty stays as it is."""

    turn: bool = False
    """One more turn."""
    class_id: str | None = None
    confidence: float | None = None
    notes: tuple[LiveNote, ...] = ()
    """Added."""
    dropped: tuple[LiveNote, ...] = ()
    """Over the replay budget (NOTE-007)."""
    package: PackagePick | None = None
    size: SizeSignals | None = None
    compacted: bool | None = None
    answered: Answered | None = None
    refused: Answered | None = None
    """The turn that was to be answered and was not."""
    escaping_since: int | None = None
    first_turn: str | None = None
    """Digest of the first turn as far as it has been answered."""
    summary: str | None = None
    """Hash of the beginning of a summary that the engine wrote."""
    monitor: MonitorDelta | None = None
    at: float = 0.0
    """When `monitor` was made, seconds since 1970."""
