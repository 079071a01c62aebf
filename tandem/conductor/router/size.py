"""How large a task has grown (EFF-005): by what was added since it began, the files it touched, its checker, its turns.

A task never shrinks; a compaction begins it anew, which is a fresh `SizeSignals`. A request adds what its newest round
of calls and results holds, so the cost of looking does not grow with the conversation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from tandem.conductor.documents.router import SizeThresholds
from tandem.conductor.router.history import checker_in, newest_round
from tandem.conductor.sessions import SizeSignals

__all__ = ["SIZES", "Size", "grown"]

Size: TypeAlias = Literal["small", "medium", "large"]
SIZES: Final[tuple[Size, ...]] = ("small", "medium", "large")
HASH_DIGITS: Final = 16
MOST_FILES: Final = 256
"""Hashes that a session keeps: any threshold is far below."""


def grown(
    signals: SizeSignals, rules: SizeThresholds, messages: Sequence[Mapping[str, Any]], prompt_tokens: int
) -> SizeSignals:
    """The signals with this request in them. `prompt_tokens` are the client's own, hidden ones left out."""
    calls, results = newest_round(messages)
    first = prompt_tokens if signals.first_tokens is None else signals.first_tokens
    seen = frozenset(map(_hash, (path for call in calls for path in call.paths)))
    files = signals.files if len(signals.files) >= MOST_FILES else signals.files | seen
    checkers = (checker_in(result) for result in results)
    now = SizeSignals(
        first_tokens=first,
        added_tokens=max(signals.added_tokens, prompt_tokens - first),
        files=files,
        gates=max(signals.gates, *(checker.gates for checker in checkers if checker), 0),
        turns=signals.turns + 1,
        size=signals.size,
    )
    return replace(now, size=max(signals.size, _size(now, rules), key=SIZES.index))


def _size(signals: SizeSignals, rules: SizeThresholds) -> Size:
    """The largest size that any one signal gives."""
    pairs = (
        (signals.added_tokens, rules.added_tokens),
        (len(signals.files), rules.files),
        (signals.gates, rules.gates),
        (signals.turns, rules.turns),
    )
    return SIZES[max((value >= small) + (value > medium) for value, (small, medium) in pairs)]


def _hash(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:HASH_DIGITS]
