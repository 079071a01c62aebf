"""The conversation a guest lies over (ENG-109): its first rows are copied aside before they are overwritten.

Nothing is copied when the guest comes, for nobody knows how long its answer gets: each write says how far it goes, and
what lies there is copied first. Where the budget ends, the conversation is cut to the rows that were copied: what was
not is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tandem.engine.caches.copies import Copied, Held, joined
from tandem.engine.models.kv import KVCache, KVRows

__all__ = ["Stash"]

_STEP: Final = 256
"""Rows copied at once where a write is shorter: decoding writes one row after the other."""


class Stash:
    """At most `budget` bytes of rows; `may_grow` is the memory policy's word on more (ENG-129)."""

    def __init__(self, held: Held, kv: KVCache, budget: int, may_grow: Callable[[int], bool]) -> None:
        self._ids, self._anchors = held
        self._kv = kv
        self._budget = budget
        self._may_grow = may_grow
        self._parts: list[KVRows] = []
        self._copied = 0
        self.cuts = 0

    @property
    def held(self) -> Held:
        return self._ids, self._anchors

    @property
    def rows(self) -> int:
        """Of the conversation; those from `copied` on are in the buffer."""
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def writing(self, end: int) -> None:
        """Rows below `end` are about to be overwritten."""
        wanted = min(end, self.rows)
        if wanted <= self._copied:
            return
        upto = min(max(wanted, self._copied + _STEP), self.rows)
        need = (upto - self._copied) * self._kv.bytes_per_token
        if self.nbytes + need > self._budget or not self._may_grow(need):
            self._cut()
            return
        try:
            self._parts.append(self._kv.copy(upto - self._copied, self._copied))
            self._copied = upto
        except (RuntimeError, MemoryError):
            self._cut()

    def copy(self, start: int, end: int) -> KVRows:
        """A copy of its rows from `start` to below `end`, wherever they are."""
        found, at = list[KVRows](), 0
        for part in self._parts:
            low, at = at, at + part.keys.shape[2]
            if start < at and low < end:
                inside = slice(max(start - low, 0), end - low)
                found.append(KVRows(part.keys[:, :, inside], part.values[:, :, inside]))
        if end > self._copied:
            first = max(start, self._copied)
            found.append(self._kv.copy(end - first, first))
        return joined(found)

    def put_back(self) -> Held:
        """Its rows are where they were."""
        if self._parts:
            self._kv.load(joined(self._parts))
        return self.held

    def copied(self) -> Copied:
        """All of it elsewhere, for the guest stays where it is."""
        rest = self.rows - self._copied
        return Copied(self._ids, self._anchors, joined([*self._parts, self._kv.copy(rest, self._copied)]))

    def _cut(self) -> None:
        self.cuts += 1
        self._ids = self._ids[: self._copied]
        self._anchors = tuple(anchor for anchor in self._anchors if anchor.row <= self._copied)
