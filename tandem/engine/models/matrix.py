"""The one interface that layer code has to a matrix, whatever format its weights are kept in (ENG-021)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["DenseMatrix", "Matrix"]


class Matrix(Protocol):
    """A linear map from K to N features."""

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""

    @property
    def nbytes(self) -> int:
        """Bytes read per use."""

    def __call__(self, x: Tensor) -> Tensor:
        """The product for any number of rows: (rows, K) to (rows, N)."""


class DenseMatrix:
    """A matrix kept as the numbers themselves, one tensor (N, K) and a bias (N) where the layer has one."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight = weight
        self._bias = bias

    @classmethod
    def stacked(cls, parts: list[tuple[Tensor, Tensor | None]]) -> DenseMatrix:
        """Several matrices over the same input as one, outputs side by side: all of them are read in one product."""
        biases = [bias for _, bias in parts if bias is not None]
        if biases and len(biases) != len(parts):
            raise ValueError("either every part of a stacked matrix has a bias or none")
        return cls(torch.cat([weight for weight, _ in parts]), torch.cat(biases) if biases else None)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self._weight.shape
        return rows, columns

    @property
    def nbytes(self) -> int:
        return self._weight.nbytes + (self._bias.nbytes if self._bias is not None else 0)

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self._weight, self._bias)
