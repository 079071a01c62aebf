"""A matrix that keeps the codes and scales of its checkpoint (ENG-021 to ENG-023).

It is what a device with kernels for these formats serves; the product here is plain torch, the twin that those are
checked against, and the form the CPU path leaves: there codes become the chosen CPU weights at load.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.checkpoints.rows import chunks
from tandem.engine.checkpoints.weights import Coded

__all__ = ["CodedMatrix"]


class CodedMatrix:
    """A matrix as stored. It computes in fp32, decoding a few rows of it at a time."""

    def __init__(self, coded: Coded, bias: Tensor | None = None) -> None:
        self._coded = coded
        self._bias = bias

    @property
    def coded(self) -> Coded:
        """The codes and scales, for a kernel."""
        return self._coded

    @property
    def shape(self) -> tuple[int, int]:
        return self._coded.shape

    @property
    def format(self) -> str:
        return self._coded.format

    @property
    def nbytes(self) -> int:
        return self._coded.nbytes + (0 if self._bias is None else self._bias.nbytes)

    def read(self, start: int, stop: int) -> Tensor:
        """Rows of the values, in fp32."""
        return self._coded.rows(start, stop)

    def __call__(self, x: Tensor) -> Tensor:
        x = x.float()
        y = torch.cat([functional.linear(x, part) for _, part in chunks(self)], dim=-1)
        return y if self._bias is None else y + self._bias

    def take(self, ids: Tensor) -> Tensor:
        """The rows `ids` (rows, int64) as a new (rows, K) in fp32."""
        return torch.cat([self._coded.rows(row, row + 1) for row in ids.tolist()])
