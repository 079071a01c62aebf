"""Keys and values of one sequence, in one buffer for the whole window (ENG-033)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tandem.engine.models.placement import CPU, Placement

__all__ = ["KVCache", "KVRows", "LayerRows"]


@dataclass(frozen=True, slots=True)
class KVRows:
    """Some rows of a cache, copied but for `KVCache.span`: two tensors (layers, kv_heads, rows, head_dim)."""

    keys: Tensor
    values: Tensor

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes


class LayerRows(NamedTuple):
    """Views of one layer's rows in a cache, for one forward."""

    new: Tensor  # (rows, 2 kv_heads, head_dim): where to write, key heads before value heads
    keys: Tensor  # (1, kv_heads, end, head_dim)
    values: Tensor  # (1, kv_heads, end, head_dim)


class KVCache:
    """Keys and values, each (layers, kv_heads, max_len, head_dim) in the type of its placement.

    The cache does not know how many of its rows hold anything: a forward that starts at row n reads the rows below n
    and writes from n on. Rows at and above a sequence's length are scratch.
    """

    def __init__(self, layers: int, kv_heads: int, max_len: int, head_dim: int, placement: Placement = CPU) -> None:
        self._shape, self._placement = (layers, 2 * kv_heads, max_len, head_dim), placement
        self.renew()

    def renew(self) -> None:
        """Other memory for the same rows; the old is given up first, and where there is no new one there are none."""
        layers, heads, _, head_dim = self._shape
        self._hold(torch.empty(layers, heads, 0, head_dim, dtype=self._placement.kv, device=self._placement.device))
        # Zeros and not `empty`: the pages are touched here, so a start that succeeds has its memory.
        self._hold(torch.zeros(self._shape, dtype=self._placement.kv, device=self._placement.device))

    def _hold(self, rows: Tensor) -> None:
        kv_heads = rows.shape[1] // 2
        self._rows, self.keys, self.values = rows, rows[:, :kv_heads], rows[:, kv_heads:]

    @staticmethod
    def bytes_for(layers: int, kv_heads: int, max_len: int, head_dim: int, placement: Placement = CPU) -> int:
        """What a cache of these sizes takes."""
        return 2 * layers * kv_heads * max_len * head_dim * placement.kv.itemsize

    @property
    def max_len(self) -> int:
        return self.keys.shape[2]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    @property
    def bytes_per_token(self) -> int:
        layers, heads, _, head_dim = self._shape
        return layers * heads * head_dim * self._placement.kv.itemsize

    def views(self, start: int, end: int) -> list[LayerRows]:
        """Every layer's part in a forward of the rows from `start` to below `end`.

        All are made in three calls: one row in one layer is written in microseconds, and to index costs as much again.
        """
        new = self._rows[:, :, start:end].transpose(1, 2).unbind()
        keys, values = (part[:, None, :, :end].unbind() for part in (self.keys, self.values))
        return [LayerRows(*views) for views in zip(new, keys, values, strict=True)]

    def gather(self, start: int, path: Sequence[int]) -> None:
        """Rows start + path[0], start + path[1], … become the rows from `start` on."""
        if list(path) != list(range(len(path))):
            rows = torch.tensor(path, device=self._rows.device) + start
            self._rows[:, :, start : start + len(path)] = self._rows[:, :, rows]

    def copy(self, length: int, start: int = 0) -> KVRows:
        """A copy of `length` rows from `start` on."""
        end = start + length
        return KVRows(self.keys[:, :, start:end].clone(), self.values[:, :, start:end].clone())

    def load(self, rows: KVRows) -> None:
        """Put copied rows back where they came from; the copy stays as it is."""
        length = rows.keys.shape[2]
        self.keys[:, :, :length] = rows.keys
        self.values[:, :, :length] = rows.values

    def span(self, start: int, end: int) -> KVRows:
        """Views of the rows from `start` to below `end`, to be written."""
        return KVRows(self.keys[:, :, start:end], self.values[:, :, start:end])
