"""What of the sessions survives a restart, as bytes (SES-007, NOTE-009). Pure: whoever calls has the file.

Kept is what a session needs so that its next turn renders the same prompt: its first date, class, live notes, turns
begun before and digests by which it is found; the directory last told is in the notes. Signals of size, the last
package and a summary's hash are not: they only help, and grow again.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.conductor.router.notes import LiveNote
from tandem.conductor.sessions.sessions import Sessions, SessionState
from tandem.conductor.sessions.view import Answered, SessionView

__all__ = ["BadSessions", "KeptSessions", "dump_sessions", "encode_sessions", "kept_sessions", "load_sessions"]

FORMAT = 1


class BadSessions(Exception):
    """The bytes are not what `dump_sessions` wrote: the sessions begin anew."""


class _Session(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: Annotated[str, Meta(min_length=1)]
    first_date: datetime.date
    client: str
    turns: Annotated[int, Meta(ge=0)] = 0
    heads: dict[str, str | None] = {}
    class_id: str | None = None
    confidence: float | None = None
    notes: tuple[LiveNote, ...] = ()
    compacted: bool = False
    has_been_compacted: bool = False
    answered: tuple[Answered, ...] = ()
    token: str | None = None


class KeptSessions(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of all sessions, as one value that nothing changes."""

    format: int
    sessions: tuple[_Session, ...]
    """The least recently used first, as they come back."""


def kept_sessions(sessions: Sessions) -> KeptSessions:
    """Quick, since nothing else may use the sessions meanwhile."""
    kept = tuple(_kept(state) for state in sessions.states() if state.view.turns)
    return KeptSessions(format=FORMAT, sessions=kept)


def encode_sessions(kept: KeptSessions) -> bytes:
    """In any thread. One by one: encoding keeps the interpreter's lock, and all at once take 100 ms where every session
    has as many notes as it may.
    """
    encode = msgspec.json.Encoder().encode
    return b'{"format":%d,"sessions":[%b]}' % (kept.format, b",".join([encode(each) for each in kept.sessions]))


def dump_sessions(sessions: Sessions) -> bytes:
    return encode_sessions(kept_sessions(sessions))


def load_sessions(data: bytes) -> Iterator[SessionState]:
    """For `Sessions.restore`. Raises `BadSessions`."""
    try:
        file = msgspec.json.decode(data, type=KeptSessions)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadSessions(f"the sessions file cannot be read: {type(error).__name__}") from None
    if file.format != FORMAT:
        raise BadSessions(f"the sessions file has format {file.format}, not {FORMAT}")
    return map(_state, file.sessions)


def _kept(state: SessionState) -> _Session:
    view = state.view
    return _Session(
        key=view.key,
        first_date=view.first_date,
        client=state.client,
        turns=view.turns,
        heads=dict(state.heads),
        class_id=view.class_id,
        confidence=view.confidence,
        notes=view.notes,
        compacted=view.compacted,
        has_been_compacted=view.has_been_compacted,
        answered=view.answered,
        token=view.token,
    )


def _state(kept: _Session) -> SessionState:
    view = SessionView(
        key=kept.key,
        first_date=kept.first_date,
        class_id=kept.class_id,
        confidence=kept.confidence,
        turns=kept.turns,
        notes=kept.notes,
        compacted=kept.compacted,
        has_been_compacted=kept.has_been_compacted,
        answered=kept.answered,
        token=kept.token,
    )
    return SessionState(view, kept.client, dict(kept.heads))
