"""Matrices in 4 bits where our own product serves them (ENG-016, ENG-021): `tandem.engine.native`.

The weights are the very ones of an `Int4Matrix`. An activation becomes two signed bytes, the digits of its number as a
multiple of its group's own unit (15 bits below the largest of 32), and digits and codes are summed as integers. So

- the error is that of the activations' rounding, a hundredth of what torch's kernel makes by rounding them to bf16;
- a row has the same bits alone and among up to `FEW` rows (ENG-027);
- the codes are read and unpacked once for all rows of a verify.

More rows are multiplied by a bf16 copy, kept or made for the product, as an `Int4Matrix` multiplies them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.checkpoints.rows import Rows, chunks
from tandem.engine.models.matrix import DenseMatrix
from tandem.engine.models.packed import Int4Matrix, int4_codes, int4_values
from tandem.engine.native import FEW, GROUP, GROUP_BYTES, Native, native, packed, unpacked

__all__ = ["NibbleMatrix"]

_COPY = 1 << 11
"""Rows of a bf16 copy that is made for a product."""


class NibbleMatrix:
    """Codes 0…15 (N, K), and per group of 32 columns a bf16 scale and zero: weight = (code - 8) x scale + zero."""

    format = "int4"

    def __init__(self, weight: Tensor | Rows, bias: Tensor | None = None, *, keeps_copy: bool = False) -> None:
        rows, columns = weight.shape
        product = native()
        if product is None or not self.takes((rows, columns)):
            raise ValueError(f"no product of our own for a matrix of shape {list(weight.shape)}")
        self._native: Native = product
        copy = torch.empty(rows, columns, dtype=torch.bfloat16) if keeps_copy else None
        self._packed = torch.empty(rows // 16, columns // GROUP, GROUP_BYTES, dtype=torch.uint8)
        for at, chunk in chunks(weight):
            codes = int4_codes(chunk)
            self._packed[at.start // 16 : at.stop // 16] = packed(*codes)
            if copy is not None:
                copy[at] = int4_values(*codes)
        self._shape = (rows, columns)
        self._copy = None if copy is None else DenseMatrix(copy)
        self._bias = bias

    @staticmethod
    def takes(shape: Sequence[int]) -> bool:
        return native() is not None and Int4Matrix.takes(shape)

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def nbytes(self) -> int:
        return self._packed.nbytes + (0 if self._bias is None else self._bias.nbytes)

    @property
    def copy_nbytes(self) -> int:
        """What one row does not read."""
        return 0 if self._copy is None else self._copy.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[0] <= FEW:
            y = self._native.int4_mm(self._packed, x.float())
        elif self._copy is not None:
            y = self._copy(x)
        else:
            y = self._many(x.to(torch.bfloat16))
        return y if self._bias is None else y + self._bias

    def _many(self, x: Tensor) -> Tensor:
        y, at = torch.empty(x.shape[0], self._shape[0], dtype=torch.bfloat16), 0
        for part in torch.split(self._packed, _COPY // 16):
            weight = int4_values(*unpacked(part)).to(torch.bfloat16)
            rows = slice(at, at := at + weight.shape[0])
            y[:, rows] = functional.linear(x, weight)
        return y
