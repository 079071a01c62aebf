"""The best of a row, in the one order the engine knows: higher first, and of equals the lowest id first (ENG-076)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["best"]


def best(row: Tensor, count: int) -> Tensor:
    """Ids of the `count` highest entries of `row` (n), best first. Ties are exact, unlike those of `torch.topk`."""
    count = min(count, row.shape[0])
    last = torch.topk(row, count).values[-1]
    ids = (row >= last).nonzero()[:, 0]
    order = torch.sort(row[ids], descending=True, stable=True).indices
    return ids[order[:count]]
