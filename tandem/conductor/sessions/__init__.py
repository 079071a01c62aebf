"""Sessions: which conversation a request belongs to, and what is remembered of it (SES-001 to SES-008, SES-020)."""

from tandem.conductor.sessions.digests import DigestCache, Digests
from tandem.conductor.sessions.keys import session_key
from tandem.conductor.sessions.lineage import summary_hash
from tandem.conductor.sessions.sessions import Sessions, SessionState
from tandem.conductor.sessions.storing import (
    BadSessions,
    KeptSessions,
    dump_sessions,
    encode_sessions,
    kept_sessions,
    load_sessions,
)
from tandem.conductor.sessions.view import (
    Answered,
    Found,
    PackagePick,
    SessionDelta,
    SessionFacts,
    SessionView,
    SizeSignals,
)

__all__ = [
    "Answered",
    "BadSessions",
    "DigestCache",
    "Digests",
    "Found",
    "KeptSessions",
    "PackagePick",
    "SessionDelta",
    "SessionFacts",
    "SessionState",
    "SessionView",
    "Sessions",
    "SizeSignals",
    "dump_sessions",
    "encode_sessions",
    "kept_sessions",
    "load_sessions",
    "session_key",
    "summary_hash",
]
