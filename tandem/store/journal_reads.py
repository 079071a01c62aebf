"""Reads of the conductor's journal: rows by filter, the decisions feed, sessions and the timeline of one (OBS-030).

A row has the hash and the tokens of a hidden text, not the text (OBS-048): that is in a session's export alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from tandem.store.journal import FOUND
from tandem.store.query import Query, Rows, Statement, match_columns
from tandem.store.schema import EVENTS

__all__ = [
    "DECISIONS",
    "NAMES",
    "EventPage",
    "Events",
    "Export",
    "Session",
    "decisions_query",
    "events_query",
    "export_query",
    "session_query",
    "sessions_query",
]

NAMES = ("id", *(column.name for column in EVENTS))
DECISIONS = ("route", "side")
"""Kinds of the router's rows, one a request (API-250)."""
NEWEST = 2**63 - 1
EXPORTED = 2_000
"""The most rows of an export."""

_ROWS = f"SELECT {', '.join(NAMES)} FROM conductor_events"

FIGURES = ("first_ms", "last_ms", "events", "requests", "routes", "findings", "hidden_tokens")
_FIGURES = (
    "min(ts_ms), max(ts_ms), count(*), count(DISTINCT request_id), sum(kind = 'route'), "
    f"sum(kind = 'monitor' AND {FOUND}), "
    "sum(coalesce(hidden_tokens, 0))"
)
NEWEST_TURN = ("profile", "client_kind", "prompt_tokens")
"""What the newest turn of a session says of it; null where it says nothing."""
_TURN = "FROM conductor_events WHERE session_key = {key} AND kind = 'route' ORDER BY ts_ms DESC LIMIT 1"
_TOLD = "CASE WHEN json_valid(detail) THEN json_extract(detail, '$.prompt_tokens') END"
_NEWEST_TURN = ", ".join(f"(SELECT {told} {_TURN})" for told in (*NEWEST_TURN[:2], _TOLD))
# The next key is looked up from the one before it, so the index is not read from end to end.
_SESSIONS = f"""
WITH RECURSIVE known(session) AS (
  SELECT min(session_key) FROM conductor_events
  UNION ALL
  SELECT (SELECT min(session_key) FROM conductor_events WHERE session_key > session) FROM known
  WHERE session IS NOT NULL
),
newest(session) AS (
  SELECT session FROM known WHERE session IS NOT NULL
  ORDER BY (SELECT max(ts_ms) FROM conductor_events WHERE session_key = session) DESC LIMIT ?
)
SELECT session, {_FIGURES}, {_NEWEST_TURN.format(key="session")}
FROM newest JOIN conductor_events ON session_key = session
WHERE kind <> 'side' GROUP BY session ORDER BY max(ts_ms) DESC, session
"""
_TEXTS = (
    "SELECT hash, text FROM conductor_texts WHERE hash IN "
    "(SELECT text_hash FROM conductor_events WHERE session_key = ? AND text_hash IS NOT NULL)"
)
_SESSION = (
    f"SELECT session_key, {_FIGURES}, {_NEWEST_TURN.format(key='?1')} "
    "FROM conductor_events WHERE session_key = ?1 AND kind <> 'side'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Which rows; what is None does not matter."""

    kind: str | None = None
    task: str | None = None
    session: str | None = None
    mode: str | None = None
    request_id: str | None = None
    since: int | None = None
    """Milliseconds since 1970."""
    before: int | None = None
    """Rows below this number."""
    findings: bool = False
    """Without the monitor's bookkeeping."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Rows, newest first, and the `before` of the next page; None where there is none."""

    events: list[dict[str, Any]]
    next_before: int | None


@dataclass(frozen=True, slots=True)
class Session:
    """A session's figures, without its side rows, and its newest rows in the order of time."""

    figures: dict[str, Any]
    events: list[dict[str, Any]]
    cut: bool
    """Whether there are older rows than these."""


@dataclass(frozen=True, slots=True)
class Export:
    """A session's rows in the order of time, and the hidden texts by hash."""

    events: list[dict[str, Any]]
    texts: dict[str, str]
    cut: bool
    """Whether there are older rows than these."""


def events_query(wanted: Events, limit: int) -> Query[EventPage]:
    """The newest `limit` rows of these. One row more is read, which tells whether there is another page."""
    return _page_query(_ids(wanted, limit + 1), limit)


def decisions_query(session: str | None, before: int | None, limit: int) -> Query[EventPage]:
    """The same of the router's rows."""
    halves = [_ids(Events(kind=kind, session=session, before=before), limit + 1) for kind in DECISIONS]
    sql = " UNION ALL ".join(f"SELECT id FROM ({half.sql})" for half in halves)
    params = [param for half in halves for param in half.params]
    return _page_query(Statement(f"{sql} ORDER BY id DESC LIMIT ?", (*params, limit + 1)), limit)


def sessions_query(limit: int) -> Query[list[dict[str, Any]]]:
    """The sessions that wrote last. One that wrote nothing but side rows is none (OBS-030)."""
    return Query((Statement(_SESSIONS, (limit,)),), lambda answers: [_session(row) for row in answers[0]])


def session_query(key: str, limit: int) -> Query[Session | None]:
    """The newest rows of a session, its side rows among them; None where it has none."""

    def fold(answers: Sequence[Rows]) -> Session | None:
        figures, rows = answers
        if not rows:
            return None
        shown = [_event(row) for row in reversed(rows[:limit])]
        return Session(_session((key, *figures[0][1:])), shown, len(rows) > limit)

    ids = _ids(Events(session=key), limit + 1)
    return Query((Statement(_SESSION, (key,)), _rows(ids)), fold)


def export_query(key: str, limit: int = EXPORTED) -> Query[Export | None]:
    """The newest rows of a session with the hidden texts that they are the first to have; None without any."""

    def fold(answers: Sequence[Rows]) -> Export | None:
        rows, texts = answers
        if not rows:
            return None
        shown = [_event(row) for row in reversed(rows[:limit])]
        return Export(shown, {str(name): str(text) for name, text in texts}, len(rows) > limit)

    return Query((_rows(_ids(Events(session=key), limit + 1)), Statement(_TEXTS, (key,))), fold)


def _ids(wanted: Events, limit: int) -> Statement:
    """The numbers of the newest rows of these."""
    where, params = ["id < ?"], [NEWEST if wanted.before is None else wanted.before]
    if wanted.since is not None:
        # Rows are numbered about as their times go, so what is older is not even passed over.
        where.append("id >= (SELECT min(id) FROM conductor_events WHERE ts_ms >= ?) AND +ts_ms >= ?")
        params += [wanted.since, wanted.since]
    if wanted.findings:
        where.append(FOUND)
    matches, values = match_columns(
        request_id=wanted.request_id, session_key=wanted.session, kind=wanted.kind, task=wanted.task, mode=wanted.mode
    )
    sql = f"SELECT id FROM conductor_events WHERE {' AND '.join((*where, *matches))} ORDER BY id DESC LIMIT ?"
    return Statement(sql, (*params, *values, limit))


def _rows(ids: Statement) -> Statement:
    sql = f"SELECT {', '.join(NAMES)} FROM conductor_events WHERE id IN ({ids.sql}) ORDER BY id DESC"
    return Statement(sql, ids.params)


def _page_query(ids: Statement, limit: int) -> Query[EventPage]:
    def fold(answers: Sequence[Rows]) -> EventPage:
        (rows,) = answers
        events = [_event(row) for row in rows[:limit]]
        return EventPage(events, events[-1]["id"] if len(rows) > limit else None)

    return Query((_rows(ids),), fold)


def _event(row: Sequence[Any]) -> dict[str, Any]:
    """A row as the routes show it. `thinking` says where a client's field turned it off, and then no effort is shown:
    the class's level did not run (OBS-116)."""
    event = dict(zip(NAMES, row, strict=True))
    detail, extra = (_object(event[name]) for name in ("detail", "extra"))
    is_off = extra is not None and bool(extra.get("client_thinking"))
    thinking = "off (client)" if is_off else (detail or {}).get("thinking")
    return event | {
        "detail": detail,
        "extra": extra,
        "thinking": thinking if isinstance(thinking, str) else None,
        "effort": None if is_off else event["effort"],
    }


def _object(text: str | bytes | None) -> dict[str, Any] | None:
    """A column of JSON; None for what is no object."""
    found: Any = None
    with suppress(msgspec.DecodeError, TypeError):
        found = msgspec.json.decode(text or "null")
    return found if isinstance(found, dict) else None


def _session(row: Sequence[Any]) -> dict[str, Any]:
    """A session's figures; of one that has only side rows there are none."""
    key, *told = row
    figures, turn = told[: len(FIGURES)], told[len(FIGURES) :]
    counts = {name: value or 0 for name, value in zip(FIGURES, figures, strict=True)}
    return {"key": key, **counts, **dict(zip(NEWEST_TURN, turn, strict=True))}
