"""The one interface that layer code has to a matrix, whatever format its weights are kept in (ENG-021)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["DenseMatrix", "Head", "Matrix", "Table"]


FEW = 64
"""Rows up to which a bf16 product is taken with the weights on the left. With more, to turn the result costs more."""


class Matrix(Protocol):
    """A linear map from K to N features."""

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""

    @property
    def format(self) -> str:
        """What the weights are in memory, such as `int8`; for the load report (ENG-031)."""

    @property
    def nbytes(self) -> int:
        """Bytes read per use by one row; the format keeps nothing else in memory."""

    def __call__(self, x: Tensor) -> Tensor:
        """The product for any number of rows: (rows, K) in any float dtype to a new (rows, N).

        The result is in the dtype the format computes in, fp32 or bf16; adding it to fp32 widens it.
        """


class Table(Protocol):
    """A matrix whose single rows can be read, as an embedding's are."""

    @property
    def nbytes(self) -> int: ...

    def take(self, ids: Tensor) -> Tensor:
        """The rows `ids` (rows, int64) as a new (rows, K) in fp32."""


class Head(Matrix, Table, Protocol):
    """A matrix that is a table as well, as a tied head is the embedding."""


class DenseMatrix:
    """A matrix kept as the numbers themselves, one tensor (N, K) in fp32 or bf16 and a bias (N) where it has one.

    It computes in its own dtype with sums in fp32.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight = weight
        self._bias = bias if bias is None else bias.to(weight.dtype)
        self._narrow = weight.dtype == torch.bfloat16

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self._weight.shape
        return rows, columns

    @property
    def format(self) -> str:
        return "bf16" if self._narrow else "fp32"

    @property
    def nbytes(self) -> int:
        return self._weight.nbytes + (self._bias.nbytes if self._bias is not None else 0)

    def __call__(self, x: Tensor) -> Tensor:
        x = x.to(self._weight.dtype)
        if not self._narrow or x.shape[0] > FEW:
            return functional.linear(x, self._weight, self._bias)
        # oneDNN packs the right one of two bf16 matrices anew for every product; on the left the weights are read as
        # they lie, once for all rows, and what is packed is small.
        y = torch.mv(self._weight, x[0])[None] if x.shape[0] == 1 else (self._weight @ x.t()).t().contiguous()
        return y if self._bias is None else y + self._bias

    def take(self, ids: Tensor) -> Tensor:
        return self._weight[ids].float()
