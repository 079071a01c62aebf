"""The waiting line: who is granted next, and who stands where (SCH-009 to SCH-014). Plain decisions, no clock.

Rules, all of them here:
1. Better ranks first; within a rank first come, first served.
2. A turn is overtaken at most `MAX_OVERTAKEN` times in all; from then on nobody who came later goes before it.
3. Granting a short side request counts as an overtaking for every turn that came earlier and still waits, and that
   might have had what was granted: who is given a slot that a waiter may not use has not overtaken it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
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
        chosen = self._waiters[_next(self._waiters)].key
        self.take(chosen)
        return chosen

    def take(self, key: str, might: Callable[[str], bool] = lambda _key: True) -> None:
        """Take out `key`, who is granted what of the others those might have had for whom `might` holds."""
        index = next(index for index, waiter in enumerate(self._waiters) if waiter.key == key)
        self._waiters = _without(self._waiters, index, might)

    def ahead(self, key: str) -> tuple[str, ...] | None:
        """Who would be granted before `key` if nobody came or went, next one first; None when it stands not here."""
        return self._order(stop=key) if any(waiter.key == key for waiter in self._waiters) else None

    def position(self, key: str) -> int | None:
        """1 is the next to be granted if nobody comes or goes; None when `key` does not stand here."""
        ahead = self.ahead(key)
        return None if ahead is None else len(ahead) + 1

    def order(self, most: int) -> tuple[str, ...]:
        """The first `most` who would be granted if nobody came or went, next one first."""
        return self._order(most)

    def _order(self, most: int | None = None, stop: str | None = None) -> tuple[str, ...]:
        line, keys = self._waiters, list[str]()
        while line and len(keys) != most:
            index = _next(line)
            if line[index].key == stop:
                break
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


def _without(line: list[_Waiter], chosen: int, might: Callable[[str], bool] = lambda _key: True) -> list[_Waiter]:
    """The line after the grant of `chosen`, overtakings counted."""
    overtakes = line[chosen].rank is Rank.SIDE
    return [
        replace(waiter, overtaken=waiter.overtaken + 1)
        if overtakes and index < chosen and waiter.rank is Rank.TURN and might(waiter.key)
        else waiter
        for index, waiter in enumerate(line)
        if index != chosen
    ]
