"""Where the last tokens have stood before: a suffix array over ids that do not change (ENG-049, ENG-050).

The array is sorted by the first `DEPTH` ids of each suffix and no further, for no longer match is looked for by it.
Prefix doubling (Manber and Myers, 1990) reaches that in three sorts. Ids below zero part documents: no match spans one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONTEXT", "DEPTH", "Ids", "SHORTEST", "Suffixes", "agreed", "suffix_array"]

SHORTEST, DEPTH = 2, 8
"""Orders of the matches that are looked for: tokens that two places have in common."""
CONTEXT = 32
"""How far back two places are compared once they match."""

Ids = NDArray[np.int32]


def suffix_array(ids: Ids, depth: int = DEPTH) -> Ids:
    """Starts of all suffixes (n), in the order of their first `depth` ids at least."""
    if not len(ids):
        return np.empty(0, np.int32)
    rank, reach = ids.astype(np.int64) + 2, 1  # 0 is what stands behind the last id, 1 a border
    while True:
        key = rank << 32
        key[:-reach] |= rank[reach:]
        order = np.argsort(key)
        ahead = key[order]
        new = np.ones(len(ids), np.int64)
        new[1:] += np.cumsum(ahead[1:] != ahead[:-1])
        reach *= 2
        if reach >= depth or new[-1] == len(ids):
            return order.astype(np.int32)
        rank[order] = new


class Suffixes:
    """Ids (n) with their suffix array (n); both may be memory-mapped, and the array may be damaged."""

    def __init__(self, ids: Ids, array: Ids) -> None:
        self.ids = ids
        self._array = array

    @classmethod
    def of(cls, ids: Ids) -> Suffixes:
        return cls(ids, suffix_array(ids))

    def ends(self, last: Sequence[int], count: int, least: int = SHORTEST) -> list[int]:
        """Positions right behind the longest match of `last`'s end, at most `count`; none below the order `least`."""
        low, high = least - 1, min(DEPTH, len(last))
        if low >= high or self._first(last[-least:]) is None:
            return []
        low = least
        # What matches n tokens matches n - 1 of them one place further on, so the longest order is found by halving.
        while low < high:
            order = (low + high + 1) // 2
            if self._first(last[-order:]) is not None:
                low = order
            else:
                high = order - 1
        wanted = list(last[-low:])
        first = self._bound(wanted, past=False)
        after = self._bound(wanted, past=True)
        step = max(1, (after - first) // count)
        return [int(start) + low for start in self._array[first:after:step][:count]]

    def follow(self, end: int, count: int) -> list[int]:
        """At most `count` ids from position `end` on, up to the document's end."""
        if not 0 <= end < len(self.ids):
            return []
        ids: list[int] = self.ids[end : end + count].tolist()
        return ids[: next((at for at, token in enumerate(ids) if token < 0), len(ids))]

    def _first(self, wanted: Sequence[int]) -> int | None:
        """Place in the array of the first suffix that begins with `wanted`."""
        at = self._bound(list(wanted), past=False)
        return at if at < len(self._array) and self._at(at, len(wanted)) == list(wanted) else None

    def _bound(self, wanted: list[int], *, past: bool) -> int:
        """Place of the first suffix that does not come before `wanted`; with `past` of the first behind all of its."""
        low, high, length = 0, len(self._array), len(wanted)
        while low < high:
            middle = (low + high) // 2
            there = self._at(middle, length)
            if there < wanted or (past and there == wanted):
                low = middle + 1
            else:
                high = middle
        return low

    def _at(self, place: int, length: int) -> list[int]:
        start = max(0, int(self._array[place]))
        return self.ids[start : start + length].tolist()  # type: ignore[no-any-return]


def agreed(ids: Sequence[int] | Ids, end: int, last: Sequence[int]) -> int:
    """How many tokens right before position `end` of `ids` are those at the end of `last`."""
    span = min(end, len(last))
    there = ids[end - span : end]
    before = there.tolist() if isinstance(there, np.ndarray) else list(there)
    length = 0
    while length < span and before[-1 - length] == last[-1 - length]:
        length += 1
    return length
