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
    """Buffers (layers, kv_heads, max_len, head_dim) for keys and values.

    The cache does not know how many of its rows hold anything: a forward that starts at row n reads the rows below n
    and writes from n on. Rows at and above a sequence's length are scratch.
    """

    def __init__(self, layers: int, kv_heads: int, max_len: int, head_dim: int) -> None:
        # Zeros and not `empty`: the pages are touched here, so a start that succeeds has its memory.
        self.keys = torch.zeros(layers, kv_heads, max_len, head_dim)
        self.values = torch.zeros(layers, kv_heads, max_len, head_dim)

    @property
    def max_len(self) -> int:
        return self.keys.shape[2]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    @property
    def bytes_per_token(self) -> int:
        return self.nbytes // self.max_len

    def put(self, layer: int, start: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write (kv_heads, rows, head_dim) from row `start` on; views of all rows up to the last one written."""
        end = start + keys.shape[1]
        self.keys[layer, :, start:end] = keys
        self.values[layer, :, start:end] = values
        return self.keys[layer, :, :end], self.values[layer, :, :end]

    def copy(self, length: int) -> KVRows:
        """A copy of the first `length` rows."""
        return KVRows(self.keys[:, :, :length].clone(), self.values[:, :, :length].clone())

    def load(self, rows: KVRows) -> None:
        """Put copied rows back where they came from; the copy stays as it is."""
        length = rows.keys.shape[2]
        self.keys[:, :, :length] = rows.keys
        self.values[:, :, :length] = rows.values
