"""The conductor's journal: what a row says, the texts it points at, and the SQL that writes them (OBS-017 to OBS-029).

A row holds no text of a prompt or an answer. A hidden text, which the conductor itself made, is stored once under its
hash, however often it is used, and rows name the hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import msgspec

from tandem.store.schema import EVENTS, Row, insert

__all__ = [
    "BOOKKEEPING",
    "FILL_CHECKER",
    "FILL_OUTCOME",
    "FOUND",
    "INSERT_EVENT",
    "INSERT_TEXT",
    "RING",
    "RING_ROWS",
    "HiddenText",
    "JournalRow",
    "Kind",
    "event_row",
    "failed_write",
    "fill_row",
    "text_rows",
]

BOOKKEEPING = ("OUTCOME", "LABEL", "COUNTS")
"""Decisions of the monitor's rows that are none (MON-146): those of `tandem.conductor.monitor.events`."""
FOUND = f"coalesce(decision, '') NOT IN {BOOKKEEPING}"
"""The condition of all other rows."""
RING_ROWS = 5_000
"""Rows that are kept where there is no ledger (OBS-018)."""

Kind: TypeAlias = Literal[
    "route",
    "monitor",
    "side",
    "outcome",
    "judge",
    "in_place",
    "library_api",
    "laya_api",
    "laya_drive",
    "probe",
    "miss",
    "config",
    "store",
]
"""What a row is about (OBS-021)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRow:
    """One row; the fields are the columns of OBS-019, `class_` is the column `class`."""

    ts_ms: int
    """Wall clock, milliseconds since 1970."""
    kind: Kind
    request_id: str | None = None
    session_key: str | None = None
    task: str | None = None
    tier: int | None = None
    """0: decided by code. 1: the served model was asked."""
    sp: str | None = None
    """The safe point, or `label` or `watch`."""
    rule: str | None = None
    mode: str | None = None
    decision: str | None = None
    action: str | None = None
    reason: str | None = None
    score: float | None = None
    text_hash: str | None = None
    hidden_tokens: int | None = None
    position: int | None = None
    reasoning_cut: int | None = None
    """Tokens of reasoning at the cut."""
    policy_version: int | None = None
    profile: str | None = None
    client_kind: str | None = None
    class_: str | None = None
    effort: str | None = None
    outcome: str | None = None
    next_checker: str | None = None
    summary: str | None = None
    detail: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class HiddenText:
    """A text that the model reads and the client does not see."""

    hash: str
    text: str
    tokens: int | None

    @classmethod
    def of(cls, text: str, tokens: int | None = None) -> HiddenText:
        """With its hash: the first 16 hex digits of SHA-256."""
        return cls(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16], text, tokens)


def failed_write(ts_ms: int, part: str, error: BaseException, *, request_id: str | None = None) -> JournalRow:
    """The row of a transcript or a snapshot that could not be written; an error's text may quote, its type not."""
    return JournalRow(
        ts_ms=ts_ms, kind="store", request_id=request_id, detail={"part": part, "error": type(error).__name__}
    )


INSERT_EVENT = insert("conductor_events", EVENTS)
INSERT_TEXT = "INSERT OR IGNORE INTO conductor_texts (hash, text, tokens, first_ms) VALUES (?, ?, ?, ?)"
FILL_OUTCOME = (
    "UPDATE conductor_events SET outcome = ?, extra = CASE WHEN kind IN ('route', 'side') AND ? IS NOT NULL "
    "THEN json_patch(coalesce(extra, '{}'), ?) ELSE extra END WHERE request_id = ?"
)
"""Outcome, more fields of `extra` twice, request."""
FILL_CHECKER = (
    "UPDATE conductor_events SET next_checker = ? WHERE id = (SELECT max(id) FROM conductor_events "
    "WHERE session_key = ? AND kind = 'route' AND request_id <> ?) AND next_checker IS NULL"
)
"""The checker's word, session, and the request that brought it."""
RING: tuple[tuple[str, Sequence[Row]], ...] = (
    ("DELETE FROM conductor_events WHERE id <= (SELECT max(id) FROM conductor_events) - ?", [(RING_ROWS,)]),
    (
        "DELETE FROM conductor_texts WHERE hash NOT IN "
        "(SELECT text_hash FROM conductor_events WHERE text_hash IS NOT NULL)",
        [()],
    ),
)
"""What keeps the journal a ring after each write, and with it only the texts that it names."""

_values = attrgetter(*("class_" if column.name == "class" else column.name for column in EVENTS[:-2]))


def event_row(row: JournalRow) -> Row:
    """The values of `EVENTS`. Raises `TypeError` for what is no JSON."""
    return (*_values(row), _json(row.detail), _json(row.extra))


def fill_row(request_id: str, outcome: str, extra: Mapping[str, Any] | None) -> Row:
    """The values of `FILL_OUTCOME`. Raises `TypeError` for what is no JSON."""
    more = _json(extra)
    return (outcome, more, more, request_id)


def text_rows(texts: Iterable[HiddenText], first_ms: int) -> list[Row]:
    """The values of `INSERT_TEXT`."""
    return [(text.hash, text.text, text.tokens, first_ms) for text in texts]


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
