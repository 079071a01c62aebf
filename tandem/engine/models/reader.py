"""Reads a checkpoint's tensors for a model package, and reports progress."""

from __future__ import annotations

from torch import Tensor

from tandem.engine.checkpoints.rows import Rows, Stored2d
from tandem.engine.checkpoints.weights import Weights
from tandem.engine.models.model import Progress

__all__ = ["Reader"]


class Reader:
    """Small tensors come whole, matrices as `Rows`, which are read while they are turned into what is kept."""

    def __init__(self, weights: Weights, progress: Progress, total: int) -> None:
        """`total` is how many tensors the package will ask for."""
        self._weights = weights
        self._progress = progress
        self._total = total
        self._done = 0

    def tensor(self, name: str, *shape: int) -> Tensor:
        """A tensor in fp32, in memory of its own."""
        tensor = self._weights.tensor(name, shape)
        self._step()
        return tensor

    def rows(self, name: str, rows: int, columns: int) -> Rows:
        """A matrix. A missing or misshapen one is an error when its first row is read."""
        shape = (rows, columns)
        self._step()
        return Stored2d(shape, lambda start, stop: self._weights.rows(name, shape, start, stop))

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)
