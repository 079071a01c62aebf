"""Where the last tokens have stood before: an index of ids that are still being written.

Appending a token costs a few entries of a dictionary, so it holds what has come since the last suffix array. Places are
found by three orders only; comparing tells how long each match is.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Grams"]

_ORDERS = (8, 4, 2)


class Grams:
    """Positions behind each run of 8, 4 and 2 tokens."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], list[int]] = {}

    def add(self, ids: Sequence[int], start: int, stop: int) -> None:
        """The runs of `ids` that end before positions start, … stop - 1."""
        for order in _ORDERS:
            for end in range(max(start, order), stop):
                self._ends.setdefault(tuple(ids[end - order : end]), []).append(end)

    def ends(self, last: Sequence[int], count: int) -> list[int]:
        """Positions right behind the longest run that `last` ends with, the newest `count` of them."""
        for order in _ORDERS:
            if len(last) >= order and (found := self._ends.get(tuple(last[-order:]))):
                return found[-count:]
        return []
