"""Seeded inputs of the operations, and trees."""

from __future__ import annotations

from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

__all__ = ["Rows", "delta_rows", "parents_of", "random_state", "trees"]


class Rows(NamedTuple):
    """What a delta operation is given for some rows."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    beta: Tensor

    def at(self, rows: slice | Tensor | int) -> Rows:
        return Rows(*(each[rows] for each in self))


def delta_rows(
    count: int, *, seed: int = 0, heads: int = 2, key_heads: int = 1, dk: int = 16, dv: int = 32, strength: float = 2.0
) -> Rows:
    """Gates between 0 and -`strength`; keys that resemble each other, as those of a text do."""
    torch.manual_seed(seed)
    common = torch.randn(key_heads, dk)
    k = common + torch.randn(count, key_heads, dk)
    q, v = torch.randn(count, key_heads, dk), torch.randn(count, heads, dv)
    return Rows(q, k, v, -strength * torch.rand(count, heads), torch.rand(count, heads))


def random_state(heads: int = 2, dk: int = 16, dv: int = 32, seed: int = 1) -> Tensor:
    return torch.randn(heads, dk, dv, generator=torch.Generator().manual_seed(seed))


def parents_of(*parents: int) -> Tensor:
    return torch.tensor(parents, dtype=torch.int32)


@st.composite
def trees(draw: st.DrawFn, most: int = 32) -> Tensor:
    """Parents before children, any number of roots."""
    count = draw(st.integers(1, most))
    return parents_of(*(draw(st.integers(-1, row - 1)) for row in range(count)))
