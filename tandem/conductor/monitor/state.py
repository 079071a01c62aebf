"""What the monitor remembers of a session (MON-125, MON-141): hashes, numbers, file names; never a text.

It is the field `monitor` of a `SessionView`, and changes by a `MonitorDelta` in a `SessionDelta` (SES-020).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "CALLS",
    "HOUR_S",
    "NOTHING_DONE",
    "NOTHING_SEEN",
    "CallRecord",
    "Gate",
    "MonitorDelta",
    "Monitored",
    "Progress",
    "ProgressKind",
    "remembered",
]

ProgressKind: TypeAlias = Literal["write", "better", "pass"]
"""A file was written; a gate fails in fewer points; a gate passed."""

CALLS: Final = 256
"""The newest calls of a session that are kept."""
HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A call of the session and what it brought."""

    id: str
    tool: str
    arguments: str
    """Hash of the canonical JSON."""
    near: str
    """Hash of the same with every number replaced by one mark (MON-158)."""
    result: str | None = None
    """Hash of its result; None: there is none yet."""
    issued_at: float | None = None
    """When the answer with it ended, in seconds since 1970."""
    returned_at: float | None = None
    """When the request came that brought its result."""
    after_user: int = 0
    """Number of user messages before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What the results of a session have said of one gate, by its `RESULT` lines (EFF-005)."""

    verdict: Literal["PASS", "FAIL"]
    value: int | None = None
    """In how many points it fails, by the newest line; None where the line names none."""
    best: int | None = None
    """The fewest since it last passed."""
    fails: int = 0
    """Failures running, none of them better than the first."""
    run: int = 0
    """Which such run it is: a pass or a better value begins another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a session's work has come, for the session tasks and the watch (MON-118, MON-132)."""

    user: str = ""
    """Hash of the newest user message."""
    users: int = 0
    """User messages in the newest request."""
    user_at: float | None = None
    """When that message came first, seconds since 1970."""
    wrote: bool = False
    """A file was written since."""
    kind: ProgressKind | None = None
    """The latest progress."""
    at: float | None = None
    """When it came."""
    gates: Mapping[str, Gate] = field(default_factory=dict)
    """By name, the one heard of last at the end."""
    compactions: int = 0
    behind: bool = False
    """The newest request was one behind a compaction."""
    steps: int = 0
    """Calls since the newest compaction."""
    files: frozenset[str] = frozenset()
    """Hashes of the names of files that these calls have read."""

    @property
    def since(self) -> float | None:
        """Since when nothing has come forward: a message of the user begins the time anew."""
        return max((at for at in (self.at, self.user_at) if at is not None), default=None)


NOTHING_DONE: Final = Progress()


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitored:
    """Nothing of it survives a restart."""

    acts: tuple[float, ...] = ()
    """When the session's counted acts of the last hour happened, seconds since 1970."""
    reasoning: frozenset[int] = frozenset()
    """Hashes of the token sequences of the reasoning since the last user message (MON-047)."""
    calls: tuple[CallRecord, ...] = ()
    """The newest, oldest first; each id once (MON-118)."""
    progress: Progress = NOTHING_DONE
    ended_at: float | None = None
    """When its last turn ended."""
    asked_at: float | None = None
    """When its last request came."""
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What tasks want remembered, by their ids: an `Action.delta` is laid over what is there."""


NOTHING_SEEN: Final = Monitored()


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorDelta:
    """Changes of what is remembered; what is None or empty stays as it is."""

    acts: tuple[float, ...] = ()
    """Added."""
    reasoning: frozenset[int] | None = None
    """In place of what is there: a new user message begins anew."""
    calls: tuple[CallRecord, ...] = ()
    """Added, or in place of those with the same id."""
    progress: Progress | None = None
    ended_at: float | None = None
    asked_at: float | None = None
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def remembered(state: Monitored, delta: MonitorDelta, now: float) -> Monitored:
    """The state after `delta`. Acts older than an hour before `now` are forgotten."""
    calls = {record.id: record for record in state.calls} | {record.id: record for record in delta.calls}
    kept = dict(state.kept)
    for task, values in delta.kept.items():
        kept[task] = {**kept.get(task, {}), **values}
    return Monitored(
        acts=tuple(at for at in (*state.acts, *delta.acts) if now - at < HOUR_S),
        reasoning=state.reasoning if delta.reasoning is None else delta.reasoning,
        calls=tuple(calls.values())[-CALLS:],
        progress=state.progress if delta.progress is None else delta.progress,
        ended_at=state.ended_at if delta.ended_at is None else delta.ended_at,
        asked_at=state.asked_at if delta.asked_at is None else delta.asked_at,
        kept=kept,
    )
