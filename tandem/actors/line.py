"""The waiting line: who is granted next, and who stands where (SCH-009 to SCH-014). Plain decisions, no clock.

Rules, all of them here:
1. Better ranks first; within a rank first come, first served.
2. A turn is overtaken at most `MAX_OVERTAKEN` times in all; from then on nobody who came later goes before it.
3. Granting a short side request counts as an overtaking for every turn that came earlier and still waits.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

__all__ = ["MAX_OVERTAKEN", "Rank", "WaitingLine"]

MAX_OVERTAKEN = 8


class Rank(enum.IntEnum):
    """Best first (SCH-011)."""

    SIDE = 0
    """A client's short side request, or a lane job no holder took."""
    TURN = 1
    LONG_SIDE = 2
    """A side request above 8,192 prompt tokens: only while no turn waits."""
    OWN = 3
    """The service's own work."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    key: str
    rank: Rank
    overtaken: int = 0


class WaitingLine:
    """Waiters in the order they came."""

    def __init__(self) -> None:
        self._waiters: list[_Waiter] = []

    def __len__(self) -> int:
        return len(self._waiters)

    def __repr__(self) -> str:
        return f"<WaitingLine {', '.join(f'{waiter.key}:{waiter.rank.name}' for waiter in self._waiters)}>"

    def enter(self, key: str, rank: Rank) -> None:
        """Stand at the end."""
        self._waiters.append(_Waiter(key, rank))

    def leave(self, key: str) -> bool:
        """Step out; False when `key` does not stand here."""
        kept = [waiter for waiter in self._waiters if waiter.key != key]
        found = len(kept) < len(self._waiters)
        self._waiters = kept
        return found

    def pop(self) -> str | None:
        """Take out and name the next to be granted, or None."""
        if not self._waiters:
            return None
        index = _next(self._waiters)
        chosen = self._waiters[index].key
        self._waiters = _without(self._waiters, index)
        return chosen

    def position(self, key: str) -> int | None:
        """1 is the next to be granted if nobody comes or goes; None when `key` does not stand here."""
        line = self._waiters
        for position in range(1, len(line) + 1):
            index = _next(line)
            if line[index].key == key:
                return position
            line = _without(line, index)
        return None

    def order(self, most: int) -> tuple[str, ...]:
        """The first `most` who would be granted if nobody came or went, next one first."""
        line, keys = self._waiters, list[str]()
        while line and len(keys) < most:
            index = _next(line)
            keys.append(line[index].key)
            line = _without(line, index)
        return tuple(keys)

    def waiting(self) -> list[str]:
        """All who wait, in the order they came."""
        return [waiter.key for waiter in self._waiters]


def _next(line: list[_Waiter]) -> int:
    """Index of the best eligible waiter of a line that is not empty."""
    best = min(range(len(line)), key=lambda index: (line[index].rank, index))
    for index in range(best):
        if line[index].rank is Rank.TURN and line[index].overtaken >= MAX_OVERTAKEN:
            return index
    return best


def _without(line: list[_Waiter], chosen: int) -> list[_Waiter]:
    """The line after the grant of `chosen`, overtakings counted."""
    overtakes = line[chosen].rank is Rank.SIDE
    return [
        replace(waiter, overtaken=waiter.overtaken + 1)
        if overtakes and index < chosen and waiter.rank is Rank.TURN
        else waiter
        for index, waiter in enumerate(line)
        if index != chosen
    ]
