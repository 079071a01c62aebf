"""Heads that new conversations begin with, and the grid lines in them whose anchors are pinned (ENG-112).

A head is a conversation's system text and tools. Anchors of a long conversation thin out, and the line that the next
conversation with the same head would resume at is among the oldest; so it is kept out of that.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

__all__ = ["PINNED", "Heads"]

PINNED: Final = 4


class Heads:
    """The newest heads, by the ids up to the last grid line inside each."""

    def __init__(self, grid: int, count: int = PINNED) -> None:
        self._grid = grid
        self._count = count
        self._heads: OrderedDict[tuple[int, ...], None] = OrderedDict()

    def saw(self, ids: tuple[int, ...], head_end: int) -> None:
        """A prompt of these ids has a head that ends before row `head_end`; one that has no line in it is none."""
        if line := min(head_end, len(ids)) // self._grid * self._grid:
            head = ids[:line]
            self._heads.pop(head, None)
            self._heads[head] = None
            if len(self._heads) > self._count:
                self._heads.popitem(last=False)

    def pinned(self, ids: tuple[int, ...]) -> frozenset[int]:
        """The lines of a sequence of `ids` at which one of the heads ends."""
        return frozenset(len(head) for head in self._heads if ids[: len(head)] == head)
