"""Keys and values of one sequence, in one buffer for the whole window (ENG-033)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["KVCache", "KVRows"]


@dataclass(frozen=True, slots=True)
class KVRows:
    """A copy of the first rows of a cache: two tensors (layers, kv_heads, rows, head_dim)."""

    keys: Tensor
    values: Tensor


class KVCache:
    """Keys and values, each (layers, kv_heads, max_len, head_dim) in fp32.

    The cache does not know how many of its rows hold anything: a forward that starts at row n reads the rows below n
    and writes from n on. Rows at and above a sequence's length are scratch.
    """

    def __init__(self, layers: int, kv_heads: int, max_len: int, head_dim: int) -> None:
        # Zeros and not `empty`: the pages are touched here, so a start that succeeds has its memory.
        rows = torch.zeros(layers, 2 * kv_heads, max_len, head_dim)
        self.keys, self.values = rows[:, :kv_heads], rows[:, kv_heads:]
        # Made once: one row in one layer is written in microseconds, and to index costs as much again.
        self._layers = [(both.transpose(0, 1), both[:kv_heads][None], both[kv_heads:][None]) for both in rows.unbind()]

    @staticmethod
    def bytes_for(layers: int, kv_heads: int, max_len: int, head_dim: int) -> int:
        """What a cache of these sizes takes."""
        return 2 * layers * kv_heads * max_len * head_dim * torch.float32.itemsize

    @property
    def max_len(self) -> int:
        return self.keys.shape[2]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    @property
    def bytes_per_token(self) -> int:
        return self.nbytes // self.max_len

    def put(self, layer: int, start: int, heads: Tensor) -> tuple[Tensor, Tensor]:
        """Write (rows, 2 kv_heads, head_dim), key heads before value heads, from row `start` on.

        Returns keys and values of all rows up to the last one written, each (1, kv_heads, rows, head_dim), as views.
        """
        count = heads.shape[0]
        both, keys, values = self._layers[layer]
        both.narrow(0, start, count).copy_(heads)
        return keys.narrow(2, 0, start + count), values.narrow(2, 0, start + count)

    def copy(self, length: int) -> KVRows:
        """A copy of the first `length` rows."""
        return KVRows(self.keys[:, :, :length].clone(), self.values[:, :, :length].clone())

    def load(self, rows: KVRows) -> None:
        """Put copied rows back where they came from; the copy stays as it is."""
        length = rows.keys.shape[2]
        self.keys[:, :, :length] = rows.keys
        self.values[:, :, :length] = rows.values
