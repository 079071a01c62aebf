"""Matrices in 8 and 4 bits on the CPU, over PyTorch's own weight-only kernels (ENG-016, ENG-021).

Both multiply bf16 activations by integer codes and sum in fp32, so an activation costs no more than its rounding to
bf16. Many rows are multiplied by a bf16 copy of the weights, made for the product and dropped after it: the kernels
turn codes into numbers again for every few rows. A small matrix in 4 bits keeps that copy. Against the `dequantised`
weights in fp32 a result is off by at most `BOUND` times (|x| |W|^T + |y|) per element, whichever way it was made
(ENG-028). A row's bits are the same alone and among up to `INT8_ROWS` or `INT4_ROWS` rows (ENG-027).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.checkpoints.rows import Rows, chunks
from tandem.engine.models.matrix import DenseMatrix

__all__ = [
    "BOUND",
    "GROUP",
    "INT4_ROWS",
    "INT8_ROWS",
    "Int4Matrix",
    "Int8Matrix",
    "int4_codes",
    "int4_values",
    "int8_codes",
]

BOUND = 2 * 2.0**-8
"""Two roundings to bf16, which keeps eight bits: of x and a weight, and of a sum and its product with a scale."""
INT8_ROWS = 12
"""Rows up to which the int8 kernel is faster than a bf16 copy (Xeon with AMX; elsewhere the border lies higher)."""
INT4_ROWS = 32
"""The same for int4. With more rows the kernel leaves its fast path. A kept copy would be faster from 8 rows on, a
verify of 16 by a third; but its weights are rounded, and drafts would part more texts at near ties, some by more.
"""
_KEPT = 1 << 21
"""Codes up to which a matrix in 4 bits may keep its copy, of four times their bytes: models of so small matrices are
small themselves, and to make their copies anew takes a third of a short prompt's time.
"""
GROUP = 32
"""Columns that share a scale in 4 bits; GGUF's Q4_0 and Q4_1 have blocks of 32 too, so theirs are kept as they are."""
_BLOCK = 64
"""Rows of weights that the int4 layout of AVX-512 interleaves."""


class Int8Matrix:
    """Codes (N, K) in int8 and one bf16 scale a row: weight = code x scale.

    K must be a multiple of 32: the kernel reads that far.
    """

    format = "int8"

    def __init__(self, weight: Tensor | Rows, bias: Tensor | None = None) -> None:
        """Quantise `weight` (N, K)."""
        rows, columns = weight.shape
        if not self.takes((rows, columns)):
            raise ValueError(f"no int8 kernel for a matrix of shape {list(weight.shape)}")
        self._codes = torch.empty(rows, columns, dtype=torch.int8)
        self._scales = torch.empty(rows, dtype=torch.bfloat16)
        for at, chunk in chunks(weight):
            self._codes[at], self._scales[at] = int8_codes(chunk)
        self._bias = bias

    @staticmethod
    def takes(shape: Sequence[int]) -> bool:
        return shape[1] % 32 == 0

    @staticmethod
    def bytes_for(shape: Sequence[int]) -> int:
        """What a matrix of `shape` takes, its bias apart."""
        return shape[0] * shape[1] + 2 * shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self._codes.shape
        return rows, columns

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes + self._scales.nbytes + (0 if self._bias is None else self._bias.nbytes)

    @property
    def dequantised(self) -> Tensor:
        """(N, K) in fp32: what the codes stand for, exactly."""
        return self._codes * self._scales.float()[:, None]

    def __call__(self, x: Tensor) -> Tensor:
        x = x.to(torch.bfloat16)
        if x.shape[0] <= INT8_ROWS:
            y = torch._weight_int8pack_mm(x, self._codes, self._scales)
        else:
            # Every code is a bf16 number, so this is the kernel's product, with one rounding more.
            y = functional.linear(x, self._codes.to(torch.bfloat16)).mul_(self._scales)
        return y if self._bias is None else y + self._bias

    def take(self, ids: Tensor) -> Tensor:
        return self._codes[ids] * self._scales[ids].float()[:, None]


def int8_codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Codes (N, K), whole numbers in fp32, and scales (N) in bf16: the nearest, with the largest of a row at 127."""
    scales = (weight.abs().amax(dim=1) / 127).to(torch.bfloat16)
    divisor = torch.where(scales == 0, 1, scales.float())
    return (weight / divisor[:, None]).round_().clamp_(-127, 127), scales


class Int4Matrix:
    """Codes 0…15, packed for the kernel, and per group of 32 columns a bf16 scale and zero:
    weight = (code - 8) x scale + zero.

    N must be a multiple of 16, K of 32. Weights that came from Q4_0 or Q4_1 blocks keep their codes; scale and zero
    alone are rounded from fp16 to bf16.
    """

    format = "int4"

    def __init__(self, weight: Tensor | Rows, bias: Tensor | None = None, *, keeps_copy: bool = False) -> None:
        """Quantise `weight` (N, K): per group the better of the forms that Q4_1 and Q4_0 have."""
        rows, columns = weight.shape
        if not self.takes((rows, columns)):
            raise ValueError(f"no int4 kernel for a matrix of shape {list(weight.shape)}")
        self._shape = (rows, columns)
        self._codes = torch.empty(rows, columns // 2, dtype=torch.uint8)
        self._scales_zeros = torch.empty(columns // GROUP, rows, 2, dtype=torch.bfloat16)
        copy = torch.empty(rows, columns, dtype=torch.bfloat16) if keeps_copy else None
        for at, chunk in chunks(weight):
            codes, scales, zeros = int4_codes(chunk)
            # Rows are interleaved within blocks that no chunk cuts, so packed parts are parts of the packed whole.
            self._codes[at] = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
            self._scales_zeros[:, at] = torch.stack((scales, zeros), dim=-1).transpose(0, 1)
            if copy is not None:
                copy[at] = int4_values(codes, scales, zeros)
        self._copy = None if copy is None else DenseMatrix(copy)
        self._bias = bias

    @staticmethod
    def takes(shape: Sequence[int]) -> bool:
        return shape[0] % 16 == 0 and shape[1] % GROUP == 0

    @staticmethod
    def may_keep_copy(shape: Sequence[int]) -> bool:
        return shape[0] * shape[1] <= _KEPT

    @staticmethod
    def bytes_for(shape: Sequence[int]) -> int:
        """What a matrix of `shape` takes, its bias apart."""
        return shape[0] * shape[1] // 2 + 4 * shape[0] * (shape[1] // GROUP)

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes + self._scales_zeros.nbytes + (0 if self._bias is None else self._bias.nbytes)

    @property
    def copy_nbytes(self) -> int:
        """What one row does not read."""
        return 0 if self._copy is None else self._copy.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        x = x.to(torch.bfloat16)
        if x.shape[0] <= INT4_ROWS:
            y = self._product(x)
        elif self._copy is not None:
            y = self._copy(x)
        elif self._shape[0] % _BLOCK == 0 and _interleaves():
            y = x @ self._transposed()
        else:
            y = torch.cat([self._product(part) for part in torch.split(x, INT4_ROWS)])
        return y if self._bias is None else y + self._bias

    def _product(self, x: Tensor) -> Tensor:
        return torch._weight_int4pack_mm_for_cpu(x, self._codes, GROUP, self._scales_zeros)

    def _transposed(self) -> Tensor:
        """The weights as (K, N) in bf16."""
        rows, columns = self._shape
        codes = _unpacked(self._codes).view(columns // GROUP, GROUP, rows)
        scales, zeros = (part.contiguous()[:, None] for part in self._scales_zeros.unbind(-1))  # (K / 32, 1, N)
        return torch.addcmul(zeros, codes, scales).view(columns, rows)

    @staticmethod
    def dequantised(weight: Tensor) -> Tensor:
        """(N, K) in fp32: what `weight` becomes. The packed codes have a layout of the processor's own."""
        return int4_values(*int4_codes(weight))


@lru_cache(maxsize=1)
def _interleaves() -> bool:
    """Whether this processor packs codes as `_unpacked` reads them; the layout follows its vector width."""
    codes = torch.arange(_BLOCK * GROUP, dtype=torch.int32).view(_BLOCK, GROUP) * 7 % 16
    packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
    return torch.equal(_unpacked(packed), (codes - 8).T)


def _unpacked(packed: Tensor) -> Tensor:
    """Codes less 8 as (K, N) in bf16, from blocks of 64 rows: (N / 64, K, 32) bytes, row i in the low half of byte i
    and row i + 32 in the high one.
    """
    rows, columns, half = packed.shape[0], packed.shape[1] * 2, _BLOCK // 2
    blocks = packed.view(rows // _BLOCK, columns, half)
    codes = torch.empty(columns, rows // _BLOCK, _BLOCK, dtype=torch.bfloat16)
    by_block = codes.transpose(0, 1)
    by_block[..., :half] = (blocks & 15).view(torch.int8) - 8
    by_block[..., half:] = (blocks >> 4).view(torch.int8) - 8
    return codes.view(columns, rows)


def int4_values(codes: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """What codes (N, K) stand for, in fp32."""
    groups = codes.view(codes.shape[0], -1, GROUP) - 8
    return (groups * scales.float()[..., None] + zeros.float()[..., None]).view(codes.shape)


def int4_codes(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Codes (N, K) in int32, scales and zeros (N, K / 32) in bf16."""
    groups = weight.view(weight.shape[0], -1, GROUP)
    low, high = groups.aminmax(dim=-1)
    step = (high - low) / 15
    spread = _fitted(groups, step, low + 8 * step)  # Q4_1: 0 is the lowest, 15 the highest
    end = torch.where(high > -low, high, low)
    centred = _fitted(groups, end / -8, torch.zeros_like(end))  # Q4_0: 0 is the largest by size, 8 is 0
    better = _loss(groups, *centred) < _loss(groups, *spread)
    codes, scales, zeros = (
        torch.where(better[..., None] if one.dim() == 3 else better, one, other)
        for one, other in zip(centred, spread, strict=True)
    )
    return codes.to(torch.int32).view(weight.shape), scales, zeros


def _fitted(groups: Tensor, scales: Tensor, zeros: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Nearest codes under scales and zeros as they are kept."""
    scales, zeros = scales.to(torch.bfloat16), zeros.to(torch.bfloat16)
    divisor = torch.where(scales == 0, 1, scales.float())[..., None]
    codes = ((groups - zeros.float()[..., None]) / divisor).round_().add_(8).clamp_(0, 15)
    return codes, scales, zeros


def _loss(groups: Tensor, codes: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    values = (codes - 8) * scales.float()[..., None] + zeros.float()[..., None]
    return (values - groups).square_().sum(dim=-1)
