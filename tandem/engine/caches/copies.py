"""A conversation that is not in the buffer: a copy of its rows, its ids, and the anchors at which it is taken up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from tandem.engine.caches.resident import SPARED, Anchor
from tandem.engine.models.kv import KVRows
from tandem.engine.shared import shared_length

__all__ = ["Copied", "Held", "joined", "newest", "usable"]

Held: TypeAlias = tuple[tuple[int, ...], tuple[Anchor, ...]]
"""Key ids and anchors of rows that lie elsewhere."""


@dataclass(frozen=True, slots=True, eq=False)
class Copied:
    """All of `ids` have rows. An anchor's recurrent part is a value that nobody writes, so it needs no copy."""

    ids: tuple[int, ...] = field(repr=False)
    anchors: tuple[Anchor, ...]
    rows: KVRows = field(repr=False)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + sum(anchor.recurrent.nbytes for anchor in self.anchors)

    def cut(self, row: int) -> Copied:
        """The first `row` rows, at which an anchor stands, with that one alone. The rows are no copy."""
        anchors = tuple(anchor for anchor in self.anchors if anchor.row == row)
        return Copied(self.ids[:row], anchors, KVRows(self.rows.keys[:, :, :row], self.rows.values[:, :, :row]))

    def itself(self) -> Copied:
        return self

    def cloned(self) -> Copied:
        """The same in memory of its own."""
        return Copied(self.ids, self.anchors, KVRows(self.rows.keys.clone(), self.rows.values.clone()))


def usable(held: Held, ids: tuple[int, ...]) -> tuple[int, tuple[Anchor, ...]]:
    """How many ids a prompt shares with what is held, and the anchors at which it could go on: all ids below them are
    compared (ENG-105), and its last token is left to be read.
    """
    shared = shared_length(held[0], ids)
    return shared, tuple(anchor for anchor in held[1] if anchor.row <= min(shared, len(ids) - 1))


def newest(anchors: Sequence[Anchor], pinned: Iterable[int] = ()) -> tuple[Anchor, ...]:
    """Of anchors in order those that are copied aside with their conversation: the newest, and any at `pinned` rows."""
    spared, rows = anchors[-SPARED:], set(pinned)
    return tuple(anchor for anchor in anchors if anchor in spared or anchor.row in rows)


def joined(parts: Sequence[KVRows]) -> KVRows:
    """Rows behind rows."""
    return KVRows(torch.cat([each.keys for each in parts], dim=2), torch.cat([each.values for each in parts], dim=2))
