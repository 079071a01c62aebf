"""The resident prefix: a closed sequence's rows stay in the buffer, and a next prompt resumes from them (ENG-107).

Bookkeeping only: ids and row numbers in, a row out; the rows themselves are the engine's. An *anchor* is a row at which
a sequence can be taken up again: the rows below it are in the buffer, and it holds the recurrent part of the state at
that row, which a model without recurrent layers has as well, empty. Nothing resumes between two anchors, whatever a
model would allow. They stand

- at every grid line that a prefill has reached,
- at the end of the sequence that was closed last (ENG-110; its newest accepted token has no row yet, so the end is
  before it and the next prompt, which holds that token, reads it),
- at the row from which a sequence was itself resumed: the end of an earlier turn, to which a repeated or edited last
  message goes back.

Rows that rounds or `force` wrote have no anchor but the end. So ids that a later prompt does not hold, hidden ones for
instance, are never resumed past: it falls back to an anchor before them.

Where recurrent parts cost memory there is a limit to the anchors (ENG-108). The newest ones are spared, where a growing
conversation will resume; of the older ones that one goes whose neighbours are nearest to each other, so they thin out
evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from tandem.engine.models.recurrent import NO_LAYERS, Recurrent
from tandem.engine.shared import shared_length
from tandem.engine.text.replay import Whose

__all__ = ["ANCHOR_BYTES", "SPARED", "Anchor", "Anchors", "Exactness", "ResidentPrefix"]

ANCHOR_BYTES: Final = 1 << 30
"""Bytes of recurrent parts that are kept where nothing else is set: 56 anchors of a model of 0.8B, 6 of one of 27B."""
SPARED: Final = 4
"""How many of the newest anchors are not thinned out."""

Exactness: TypeAlias = Literal["bit", "text"]
"""What a run from an anchor equals: a cold run's every bit, or its tokens up to a near tie (ENG-073, ENG-066)."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The first `row` rows can be taken up."""

    row: int
    exactness: Exactness
    recurrent: Recurrent = field(default=NO_LAYERS, compare=False, repr=False)
    whose: Whose | None = field(default=None, compare=False, repr=False)
    """Of an end: who may be told of the hidden tokens below it (ENG-111); None: nobody."""


class Anchors:
    """The anchors of one sequence, kept up as it is read; at most `limit` of them where one is set.

    A line is bit class where every row below it came of the passes a cold run makes: whole grid chunks from row 0 on.
    A line above a row that a round wrote, or that a pass cut elsewhere wrote, is text class although a prefill wrote
    it: a prompt resumed at an end reads on from there to the next line, in other cuts and over other rows than a cold
    run's. It stays text class for every line after it.
    """

    whose: Whose | None = None
    """Of the sequence, for the anchor at its end."""

    def __init__(
        self,
        grid: int,
        known: Iterable[Anchor] = (),
        limit: int | None = None,
        pinned: frozenset[int] = frozenset(),
    ) -> None:
        """`pinned` are rows whose anchors do not count for the limit and stay (ENG-112)."""
        self._grid = grid
        self._known = {anchor.row: anchor for anchor in known}
        self._limit = limit
        self.pinned = pinned

    @property
    def all(self) -> tuple[Anchor, ...]:
        """In order of their rows."""
        return tuple(self._known[row] for row in sorted(self._known))

    @property
    def last(self) -> Anchor | None:
        """The one of the highest row."""
        return self._known[max(self._known)] if self._known else None

    @property
    def newest(self) -> int:
        """The highest row; 0 where there is none."""
        return max(self._known, default=0)

    def prefilled(self, start: int, end: int, recurrent: Recurrent = NO_LAYERS) -> None:
        """One pass of a prefill has written rows start…end - 1; it goes no further than the first line past `start`.

        `recurrent` stands at `end`.
        """
        if end % self._grid == 0:
            before = self._known.get(start)
            exact = start == 0 or (start % self._grid == 0 and before is not None and before.exactness == "bit")
            self.add(Anchor(end, "bit" if exact else "text", recurrent))

    def give_up(self, rows: Iterable[int]) -> None:
        """Anchors at these rows are no more; the newest one stays, where the sequence was taken up."""
        for row in set(rows) - {self.newest}:
            self._known.pop(row, None)

    def add(self, anchor: Anchor) -> None:
        """One more, in place of another of its row; an old one may have to go for it."""
        self._known[anchor.row] = anchor
        while self._limit is not None and len(self._known.keys() - self.pinned) > self._limit:
            del self._known[_dispensable(sorted(self._known.keys() - self.pinned))]


def _dispensable(rows: Sequence[int]) -> int:
    """Of rows in order, the old one whose neighbours are nearest to each other; of equals the oldest."""
    old = range(max(len(rows) - SPARED, 1))
    return rows[min(old, key=lambda at: rows[min(at + 1, len(rows) - 1)] - (rows[at - 1] if at else 0))]


class ResidentPrefix:
    """What the buffer holds between two sequences, by its ids (ENG-105), and what has come of it.

    With `end_anchor` off it resumes at grid lines only, all of them bit class where prefills are cut on the grid.
    Switched off as a whole it keeps nothing and counts nothing.
    """

    def __init__(self, grid: int, *, enabled: bool = True, end_anchor: bool = True, limit: int | None = None) -> None:
        self._grid = grid
        self._enabled = enabled
        self._end_anchor = end_anchor
        self._limit = limit if enabled else 0
        self._ids: tuple[int, ...] = ()
        self._anchors: tuple[Anchor, ...] = ()
        self._hits = 0
        self._misses = 0

    @property
    def rows(self) -> int:
        """How many rows of the buffer hold something."""
        return len(self._ids)

    @property
    def anchors_held(self) -> int:
        return len(self._anchors)

    @property
    def held(self) -> tuple[tuple[int, ...], tuple[Anchor, ...]]:
        """Ids that have rows, and their anchors in order."""
        return self._ids, self._anchors

    def give_up(self, rows: Iterable[int]) -> None:
        """Anchors at these rows are no more."""
        gone = set(rows)
        self._anchors = tuple(anchor for anchor in self._anchors if anchor.row not in gone)

    def resume(self, ids: tuple[int, ...], pinned: frozenset[int] = frozenset()) -> Anchors:
        """The anchors that a prompt of `ids` shares with what is held; it resumes at the newest of them, row 0 if none.

        At least the last token is left to be read: its row of logits gives the first token of the answer.
        """
        if not self._enabled:
            return self.taken_up(())
        shared = min(shared_length(self._ids, ids), len(ids) - 1)
        usable = [anchor for anchor in self._anchors if anchor.row <= shared]
        if usable:
            self._hits += 1
        else:
            self._misses += 1
        return self.taken_up(usable, pinned)

    def taken_up(self, anchors: Iterable[Anchor], pinned: frozenset[int] = frozenset()) -> Anchors:
        """The anchors of a sequence that goes on from `anchors`; those at the rows `pinned` stay (ENG-112)."""
        return Anchors(self._grid, anchors, self._limit, pinned)

    def keep(self, ids: Sequence[int], anchors: Anchors, recurrent: Recurrent = NO_LAYERS) -> None:
        """A sequence has ended with rows in the buffer that hold `ids`; `recurrent` stands behind them."""
        if not self._enabled:
            return
        self._ids = tuple(ids)
        kept = self.taken_up((anchor for anchor in anchors.all if anchor.row <= len(ids)), anchors.pinned)
        if self._end_anchor and kept.newest < len(ids):
            kept.add(Anchor(len(ids), "text", recurrent, anchors.whose))
        self._anchors = kept.all

    def drop(self) -> int:
        """Forget everything, because rows are about to be overwritten or a person wants it: how many rows were held."""
        rows = len(self._ids)
        self._ids, self._anchors = (), ()
        return rows

    def lend(self) -> tuple[tuple[int, ...], tuple[Anchor, ...]]:
        """What is held, for `take_back`; until then nothing is: the rows are a guest's (ENG-138)."""
        lent = self._ids, self._anchors
        self.drop()
        return lent

    def take_back(self, lent: tuple[tuple[int, ...], tuple[Anchor, ...]]) -> None:
        """The rows are there again as at `lend`."""
        self._ids, self._anchors = lent

    def state(self) -> Mapping[str, int]:
        """What is held now, and how many prompts found an anchor since the load."""
        return {
            "resident_rows": len(self._ids),
            "resident_anchors": len(self._anchors),
            "resident_hits": self._hits,
            "resident_misses": self._misses,
        }
