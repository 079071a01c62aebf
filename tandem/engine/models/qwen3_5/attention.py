"""The full-attention layers of Qwen3.5: query and key norms, partly turned heads, a gate on the result (ENG-008).

Shapes in comments: T rows of the chunk, H query heads, K kv heads, D the size of a head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

from tandem.engine.models.kv import LayerRows
from tandem.engine.models.layers import attend, joined, parted
from tandem.engine.models.matrix import Matrix
from tandem.engine.models.rotary import rotate_

__all__ = ["GatedAttention", "Over"]


class Over(NamedTuple):
    """What the rows of one sequence stand at and see in one layer."""

    rows: LayerRows
    turns: Tensor  # (T, 1, turned / 2)
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class GatedAttention:
    """The weights of one layer's attention, and what they compute."""

    project: Matrix  # hidden to (2 H + 2 K) D: queries, keys, values, gates; the turned part of a head in pairs
    norms: Tensor  # (H + K, D): of every query head, then of every key head; the one of a zero-centred norm is added
    out: Matrix  # H D to hidden
    kv_heads: int
    eps: float

    @property
    def matrices(self) -> Iterator[Matrix]:
        yield from (self.project, self.out)

    @property
    def nbytes(self) -> int:
        return sum(matrix.nbytes for matrix in self.matrices)

    def __call__(self, x: Tensor, over: Over) -> Tensor:
        """(T, hidden) mixed over the rows of the cache, which takes the keys and values of `x`."""
        return self.out(self._mixed(self.project(x).float(), over))

    def joint(self, x: Tensor, over: Sequence[Over]) -> Tensor:
        """The same of several sequences, whose rows follow each other in `x`, each over a cache of its own."""
        parts = parted(self.project(x).float(), [len(each.turns) for each in over])
        return self.out(joined([self._mixed(*part) for part in zip(parts, over, strict=True)]))

    def keep(self, x: Tensor, rows: LayerRows, turns: Tensor) -> tuple[Tensor, Tensor]:
        """The cache takes the keys and values of (T, hidden); for `mix` queries (T, H, D) and gates (T, H D)."""
        return self._keep(self.project(x).float(), rows, turns)

    def mix(self, queries: Tensor, gates: Tensor, rows: LayerRows, mask: Tensor | None) -> Tensor:
        """(T, hidden) of queries over the rows of the cache."""
        return self.out(_gated(queries, gates, rows, mask))

    def _mixed(self, projected: Tensor, over: Over) -> Tensor:
        queries, gates = self._keep(projected, over.rows, over.turns)
        return _gated(queries, gates, over.rows, over.mask)

    def _keep(self, projected: Tensor, rows: LayerRows, turns: Tensor) -> tuple[Tensor, Tensor]:
        turned, size = self.norms.shape
        queries = turned - self.kv_heads
        heads = projected.view(projected.shape[0], -1, size)
        normed = functional.rms_norm(heads[:, :turned], (size,), None, self.eps).mul_(self.norms)
        rotate_(normed[..., : 2 * turns.shape[-1]], turns)
        rows.new[:, : self.kv_heads] = normed[:, queries:]
        rows.new[:, self.kv_heads :] = heads[:, turned : turned + self.kv_heads]
        return normed[:, :queries], heads[:, turned + self.kv_heads :].flatten(1)


def _gated(queries: Tensor, gates: Tensor, rows: LayerRows, mask: Tensor | None) -> Tensor:
    """(T, H D)."""
    return attend(queries, rows.keys, rows.values, mask) * gates.sigmoid()
