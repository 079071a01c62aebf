"""What of one sequence of key ids lies on the disk and what should, by the names alone (ENG-110, ENG-116). No I/O.

A sequence is cut at grid lines. Its pieces, by their kinds:

- `rows` are those of a whole chunk as prefills wrote them, `anchor` is the recurrent part behind them: bit class;
- `text` are the rows of a whole chunk of which rounds wrote some, or that were read behind such rows;
- `end` is where an answer ended: the rows from the last line on, and the recurrent part behind them: text class.

A prompt resumes at a line over `rows` alone, or at an end over `rows` and `text` (ENG-073).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tandem.engine.caches.disk_index import DiskIndex, Entry, Kind
from tandem.engine.caches.keys import chain, linked
from tandem.engine.caches.resident import Anchor, Exactness
from tandem.engine.models.recurrent import Recurrent

__all__ = ["Missing", "Prefix", "Way", "furthest", "start_of"]

_OF_CHUNKS: Final[tuple[Kind, ...]] = ("rows", "anchor", "text")


@dataclass(frozen=True, slots=True)
class Missing:
    """A piece that should be written: the one of `kind` that ends at `row`."""

    row: int
    kind: Kind = "rows"
    recurrent: Recurrent | None = field(default=None, compare=False, repr=False)
    """Of an anchor and of an end: a value, which changes no more."""


@dataclass(frozen=True, slots=True)
class Way:
    """A place at which a prompt can go on: `rows` are the files to be put in place, in order."""

    row: int
    start: int
    """Where the first of them begins."""
    exactness: Exactness
    rows: tuple[Entry, ...]
    recurrent: Entry | None
    """The file that has the recurrent part; None where the model has none."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Key ids, and the names of the chunks they fill."""

    ids: Sequence[int] = field(repr=False)
    grid: int
    fingerprint: str
    names: tuple[str, ...] = field(repr=False)

    @staticmethod
    def of(ids: Sequence[int], grid: int, fingerprint: str) -> Prefix:
        return Prefix(ids, grid, fingerprint, chain(ids, grid))

    def entry(self, row: int, kind: Kind) -> Entry:
        """The file of a piece that ends at `row`, whether there is one or not."""
        at = row // self.grid
        if kind != "end":
            return Entry(self.fingerprint, row, self.names[at - 1], kind)
        line = start_of(row, self.grid)
        before = self.names[line // self.grid - 1] if line else ""
        return Entry(self.fingerprint, row, linked(before, self.ids[line:row]), kind)

    def lines(self, beyond: int = 0) -> range:
        """The grid lines above the line `beyond`."""
        return range(beyond + self.grid, len(self.names) * self.grid + 1, self.grid)

    def files(self, index: DiskIndex, upto: int) -> tuple[str, ...]:
        """Those there are of the chunks below the row `upto`."""
        there = (self.entry(row, kind).file for row in self.lines() if row <= upto for kind in _OF_CHUNKS)
        return tuple(file for file in there if file in index)

    def ends(self, index: DiskIndex, above: int, upto: int) -> Iterator[Entry]:
        """The ends there are at rows from above `above` up to `upto`, the furthest first."""
        for row in index.ends(above, min(upto, len(self.ids))):
            if (entry := self.entry(row, "end")).file in index:
                yield entry

    def stale(self, index: DiskIndex, entry: Entry) -> tuple[str, ...]:
        """What nobody needs once `entry` is there: the same conversation's ends before it, a chunk's text class."""
        if entry.kind == "end":
            return tuple(each.file for each in self.ends(index, 0, entry.row - 1))
        text = self.entry(entry.row, "text").file
        return (text,) if entry.kind == "rows" and text in index else ()

    def missing(
        self, index: DiskIndex, anchors: Mapping[int, Recurrent], after: int, *, recurrent: bool
    ) -> Iterator[Missing]:
        """Of bit class, in order, up to the first chunk that fewer than `after` prompts have held."""
        for row in self.lines():
            if row > max(anchors, default=0) or not index.admits(self.names[row // self.grid - 1], after):
                return
            if not index.has(self.entry(row, "rows")):
                yield Missing(row)
            if recurrent and row in anchors and not index.has(self.entry(row, "anchor")):
                yield Missing(row, "anchor", anchors[row])

    def ended(self, index: DiskIndex, anchors: Sequence[Anchor], after: int) -> None:
        """The conversation has got a turn, which ends at the last of `anchors`, of text class; once a turn."""
        ends = (each.row for each in reversed(anchors[:-1]) if each.exactness == "text" and each.row % self.grid)
        before = next(ends, 0)
        index.ended(self.entry(anchors[-1].row, "end"), self.entry(before, "end") if before else None, after)

    def end_missing(self, index: DiskIndex, anchors: Sequence[Anchor], after: int) -> Iterator[Missing]:
        """The end at the last of `anchors` and all rows below it, in order, once the conversation has had `after`
        turns.
        """
        last, end = anchors[-1], self.entry(anchors[-1].row, "end")
        exact = max((each.row for each in anchors if each.exactness == "bit"), default=0)
        if not index.admits(end.name, after):
            return
        for row in self.lines():
            if row > last.row:
                break
            if index.has(self.entry(row, "rows")):
                continue
            if row <= exact:
                yield Missing(row)
            elif not index.has(self.entry(row, "text")):
                yield Missing(row, "text")
        if not index.has(end):
            yield Missing(last.row, "end", last.recurrent)


def start_of(row: int, grid: int) -> int:
    """Where the piece that ends at `row` begins."""
    return (row - 1) // grid * grid


def furthest(prefix: Prefix, index: DiskIndex, have: int, beyond: int, *, recurrent: bool) -> Way | None:
    """The highest row at which a prompt can go on: a line above the line `have`, up to which rows of bit class are in
    place, or an end above the row `beyond`, up to which rows of its ids are. `prefix` is without the prompt's last
    token, which is left to be read.
    """
    end = _end(prefix, index, beyond)
    line = _line(prefix, index, have, recurrent=recurrent)
    return end if line is None or (end is not None and end.row > line.row) else line


def _line(prefix: Prefix, index: DiskIndex, have: int, *, recurrent: bool) -> Way | None:
    rows, found = list[Entry](), None
    for row in prefix.lines(have):
        if (entry := prefix.entry(row, "rows")).file not in index:
            break
        rows.append(entry)
        anchor = prefix.entry(row, "anchor") if recurrent else None
        if anchor is None or anchor.file in index:
            found = Way(row, have, "bit", tuple(rows), anchor)
    return found


def _end(prefix: Prefix, index: DiskIndex, beyond: int) -> Way | None:
    start = beyond // prefix.grid * prefix.grid
    rows, upto = list[Entry](), start
    for row in prefix.lines(start):
        there = (entry for kind in ("rows", "text") if (entry := prefix.entry(row, kind)).file in index)
        if (chunk := next(there, None)) is None:
            break
        rows.append(chunk)
        upto = row
    for end in prefix.ends(index, beyond, upto + prefix.grid):
        below = (each for each in rows if each.row < end.row)
        return Way(end.row, start, "text", (*below, end), end)
    return None
