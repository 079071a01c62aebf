"""What a session's tools have done since the newest write, told by the names of the calls alone (MON-058, MON-070)."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Final

from tandem.conductor.monitor.call_runs import Made
from tandem.conductor.monitor.state import CallRecord
from tandem.conductor.router.history import plain_name

__all__ = ["Evidence", "calls_behind", "evidence_of", "matches"]

_MOST: Final = 16
"""Tools and calls that are named at most."""
_LONGEST: Final = 64
"""Characters of a call's id; clients make them up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """There was a write. `tools` came behind the newest, each named once; `ids` are the newest of their calls."""

    tools: tuple[str, ...]
    ids: tuple[str, ...]
    ran: bool
    """One of them runs something."""


def evidence_of(
    made: Sequence[Made], before: Sequence[CallRecord], writes: Sequence[str], runs: Sequence[str]
) -> Evidence | None:
    """The evidence in a history; where it holds no write, as behind a compaction, with what is remembered of the
    session before it. None where nothing was written. `writes` and `runs` are patterns of tools' names.
    """
    seen = [(call.tool, call.key) for call in made]
    found = _since(seen, writes, runs)
    if found is None and before:
        known = {(record.tool, record.id): None for record in before}
        found = _since([*known, *(call for call in seen if call not in known)], writes, runs)
    return found


def calls_behind(made: Sequence[Made], call: str) -> Sequence[Made]:
    """Those behind the call with this key; all of them where it is there no more."""
    at = next((at for at in reversed(range(len(made))) if made[at].key == call), -1)
    return made[at + 1 :]


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether the name is like one of the patterns, `*` for anything, whatever the case."""
    return bool(patterns) and _compiled(tuple(patterns)).fullmatch(name) is not None


@functools.lru_cache(64)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)), re.IGNORECASE)


def _since(calls: Sequence[tuple[str, str]], writes: Sequence[str], runs: Sequence[str]) -> Evidence | None:
    """Of calls by their tools and ids, oldest first."""
    at = next((at for at in reversed(range(len(calls))) if matches(calls[at][0], writes)), None)
    if at is None:
        return None
    since = calls[at + 1 :]
    return Evidence(
        tools=tuple(dict.fromkeys(plain_name(tool) for tool, _ in since))[-_MOST:],
        ids=tuple(call[:_LONGEST] for _, call in since)[-_MOST:],
        ran=any(matches(tool, runs) for tool, _ in since),
    )
