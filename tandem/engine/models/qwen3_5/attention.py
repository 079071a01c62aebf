"""The full-attention layers of Qwen3.5: query and key norms, partly turned heads, a gate on the result (ENG-008).

Shapes in comments: T rows of the chunk, H query heads, K kv heads, D the size of a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from tandem.engine.models.kv import LayerRows
from tandem.engine.models.layers import attend
from tandem.engine.models.matrix import Matrix
from tandem.engine.models.rotary import rotate_

__all__ = ["GatedAttention"]


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

    def __call__(self, x: Tensor, rows: LayerRows, turns: Tensor, mask: Tensor | None) -> Tensor:
        """(T, hidden) mixed over the rows of the cache, which takes the keys and values of `x`."""
        turned, size = self.norms.shape
        queries = turned - self.kv_heads
        heads = self.project(x).float().view(x.shape[0], -1, size)
        normed = functional.rms_norm(heads[:, :turned], (size,), None, self.eps).mul_(self.norms)
        rotate_(normed[..., : 2 * turns.shape[-1]], turns)
        rows.new[:, : self.kv_heads] = normed[:, queries:]
        rows.new[:, self.kv_heads :] = heads[:, turned : turned + self.kv_heads]
        mixed = attend(normed[:, :queries], rows.keys, rows.values, mask)
        gates = heads[:, turned + self.kv_heads :].flatten(1)
        return self.out(mixed * gates.sigmoid())
