"""Matrices on their way into memory: a few rows at a time, so that a load never holds a matrix twice (ENG-031).

A 27B model's embedding alone takes 5 GB in fp32. What turns a stored matrix into the kept form therefore asks for rows,
converts them into their place and drops them; only the kept form is ever whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["CHUNK_BYTES", "Held", "Picked", "Rows", "Stack", "Stored2d", "chunks", "rows_of"]

CHUNK_BYTES = 16 << 20
"""Of a chunk in fp32. A conversion needs a few times as much beside what it fills."""
_UNIT = 64
"""Chunks begin at its multiples: the int4 layout interleaves so many rows."""


class Rows(Protocol):
    """A matrix (N, K) of which rows can be read."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def read(self, start: int, stop: int) -> Tensor:
        """Rows `start` to below `stop` in fp32, contiguous; not to be written to."""


@dataclass(frozen=True, slots=True)
class Held:
    """Rows of a tensor in memory."""

    tensor: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.tensor.shape
        return rows, columns

    def read(self, start: int, stop: int) -> Tensor:
        return self.tensor[start:stop].float().contiguous()


@dataclass(frozen=True, slots=True)
class Stored2d:
    """Rows of a checkpoint's matrix."""

    shape: tuple[int, int]
    reader: Callable[[int, int], Tensor]

    def read(self, start: int, stop: int) -> Tensor:
        return self.reader(start, stop)


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows of another matrix in another order: row i is its row `order[i]`.

    Fit for orders that keep near rows near, such as within a head: what lies between them is read as well.
    """

    rows: Rows
    order: Tensor  # (N) int64

    @property
    def shape(self) -> tuple[int, int]:
        return self.order.shape[0], self.rows.shape[1]

    def read(self, start: int, stop: int) -> Tensor:
        order = self.order[start:stop]
        first, last = int(order.min()), int(order.max())
        return self.rows.read(first, last + 1)[order - first]


class Stack:
    """Matrices over the same input, one below the other."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        widths = {part.shape[1] for part in parts}
        if len(widths) != 1:
            raise ValueError(f"a stack needs parts of one width, not {sorted(widths)}")
        self._parts = tuple(parts)
        self.shape = (sum(part.shape[0] for part in parts), widths.pop())

    def read(self, start: int, stop: int) -> Tensor:
        found, at = [], 0
        for part in self._parts:
            low, high = max(start - at, 0), min(stop - at, part.shape[0])
            if low < high:
                found.append(part.read(low, high))
            at += part.shape[0]
        return found[0] if len(found) == 1 else torch.cat(found)


def rows_of(weight: Tensor | Rows) -> Rows:
    """A weight as `Rows`, whichever of the two it is."""
    return Held(weight) if isinstance(weight, Tensor) else weight


def chunks(weight: Tensor | Rows) -> Iterator[tuple[slice, Tensor]]:
    """The whole matrix in fp32, in pieces of about `CHUNK_BYTES`: where each belongs, and its rows."""
    rows = rows_of(weight)
    count, columns = rows.shape
    step = max(_UNIT, CHUNK_BYTES // (4 * max(columns, 1)) // _UNIT * _UNIT)
    for start in range(0, count, step):
        stop = min(start + step, count)
        yield slice(start, stop), rows.read(start, stop)
