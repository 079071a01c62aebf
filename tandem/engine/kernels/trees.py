"""Trees of rows, as a verify reads them: a parent for every row, parents before children (ENG-055, ENG-057).

`parents` is an integer tensor (N): the index of each row's parent, or -1 where the committed prefix comes right before
it. A chain is the tree whose row n has parent n - 1. `path` is an integer tensor of the rows of one path from a root
down; entries of -1 at its end are none, so a path of any length fits a buffer of fixed size.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["ROWS", "chain", "climb", "lineage", "seen"]

ROWS = 32
"""Rows of the widest tree (ENG-056)."""


def chain(rows: int, device: torch.device | str = "cpu") -> Tensor:
    """The parents of a chain of `rows`."""
    return torch.arange(-1, rows - 1, device=device)


def climb(parents: Tensor, steps: int) -> Tensor:
    """Where `steps` steps up lead from every row: (steps, N). Past a root -1, then -2, -3, … back into the prefix."""
    at, ways = torch.arange(parents.shape[0], device=parents.device), []
    for _ in range(steps):
        at = torch.where(at >= 0, parents[at.clamp(min=0)], at - 1)
        ways.append(at)
    return torch.stack(ways) if ways else at.new_empty(0, parents.shape[0])


def seen(parents: Tensor) -> Tensor:
    """What each row sees of the others: (N, N) bool, itself and its ancestors."""
    rows = parents.shape[0]
    columns = torch.arange(rows, device=parents.device)
    result = torch.eye(rows, dtype=torch.bool, device=parents.device)
    for way in climb(parents, rows - 1):
        result |= way[:, None] == columns
    return result


def lineage(parents: Tensor, node: int) -> list[int]:
    """The path from a root down to `node`."""
    rows, ways = [], parents.tolist()
    while node >= 0:
        rows.append(node)
        node = ways[node]
    return rows[::-1]
