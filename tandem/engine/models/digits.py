"""Matrices in 8 bits on a CPU that multiplies bytes, over oneDNN's integer kernels (ENG-016, ENG-021).

A row of activations becomes three rows of bytes, the digits of its numbers as multiples of the row's own unit (24 bits
below its largest), and the products of digits and codes are summed as integers. So

- nothing is rounded but the activations, and those as finely as fp32 rounds them: the result is the product with the
  weights that the codes stand for, as near as a sum in fp32 comes to it;
- a sum of integers has no order, so a row has the same bits alone and among up to `ROWS` rows (ENG-027);
- the codes are read once for all rows of a verify: 16 cost little more than one. torch's weight-only kernel computes
  with every code again for every row, and is bound by that from the first.

The kernels want the codes in blocks of their own, in memory that oneDNN allocates. Rows are read back from there: for
an embedding that is the head as well, and for the bf16 copy that multiplies more rows than `ROWS`. Every shape is tried
first (`_packs`): where oneDNN has another layout for it, or bytes do not multiply exactly (a processor without VNNI),
the matrix is an `Int8Matrix`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.checkpoints.rows import Rows, chunks, rows_of
from tandem.engine.models.packed import int8_codes
from tandem.engine.native import Native, native

__all__ = ["ROWS", "DigitMatrix"]

ROWS = 128
"""Rows up to which digits are faster than a bf16 copy (Xeon with AMX)."""
OURS = 32
"""Rows up to which our own product is faster than oneDNN's (the same machine); it gives the same bits."""
_SMALL = 1 << 20
"""Codes below which a matrix is read faster than oneDNN multiplies digits: about 50 µs a product, whatever its size."""
_TINY = 1 << 16
"""The same for our own product."""
_BLOCK = 64
"""Rows of weights that a block of the layout holds, and the columns that both sizes must be multiples of."""
_PART_BYTES = 1 << 24
"""Codes that are packed together: while they are, they lie in memory twice."""
_PROBE = 256
"""Rows at most that a shape is tried with; more of them make more blocks of the same."""
_COPY = 1 << 11
"""Rows of a bf16 copy."""
_MIDDLE = 0x808080
"""What is added to a number of digits in -128…127, so that they are read as bytes 0…255."""
_TOP = 127 << 16
"""The largest number, just below what three digits can hold."""
_SMALLEST = 2.0**-100
"""A row's largest number is taken to be at least this, so that a row of zeros has a unit."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of the matrix in oneDNN's hands, and the same bytes as a tensor."""

    packed: Tensor
    blocks: Tensor  # (rows / 64, K / 4, 64) in int32: four neighbouring codes of a row are one number
    scales: Tensor  # (rows) fp32


class DigitMatrix:
    """Codes (N, K) in int8 and one scale a row, a number of bf16, the very ones of an `Int8Matrix`.

    N and K must be multiples of 64.
    """

    format = "int8"

    def __init__(self, weight: Tensor | Rows, bias: Tensor | None = None) -> None:
        rows = rows_of(weight)
        self._shape = rows.shape
        count, self._step = rows.shape[0], _part_rows(rows.shape[1])
        self._parts = [_packed_part(rows, at, min(at + self._step, count)) for at in range(0, count, self._step)]
        self._bias = bias
        self._native = native()

    @staticmethod
    def takes(shape: Sequence[int]) -> bool:
        rows, columns = shape
        if rows % _BLOCK or columns % _BLOCK or rows * columns < (_SMALL if native() is None else _TINY):
            return False
        step = _part_rows(columns)
        return all(_packs(min(part, _PROBE), columns) for part in {min(rows, step), rows % step} - {0})

    @staticmethod
    def bytes_for(shape: Sequence[int]) -> int:
        """What a matrix of `shape` takes, its bias apart: oneDNN keeps a sum for every row behind the codes."""
        return shape[0] * shape[1] + 8 * shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def nbytes(self) -> int:
        return self.bytes_for(self._shape) + (0 if self._bias is None else self._bias.nbytes)

    @property
    def dequantised(self) -> Tensor:
        """(N, K) in fp32: what the codes stand for, exactly."""
        return torch.cat([codes * scales[:, None] for codes, scales in self._plain(self._shape[0])])

    def __call__(self, x: Tensor) -> Tensor:
        if self._native is not None and x.shape[0] <= OURS:
            y = self._own(x.float().contiguous(), self._native)
        else:
            y = self._exact(x.float()) if x.shape[0] <= ROWS else self._many(x.to(torch.bfloat16))
        return y if self._bias is None else y + self._bias

    def take(self, ids: Tensor) -> Tensor:
        taken = torch.empty(ids.shape[0], self._shape[1])
        which, at = ids // self._step, ids % self._step
        for index in sorted(set(which.tolist())):
            mine, part = which == index, self._parts[index]
            rows = at[mine]
            codes = part.blocks[rows // _BLOCK, :, rows % _BLOCK].view(torch.int8)
            taken[mine] = codes * part.scales[rows, None]
        return taken

    def _own(self, x: Tensor, ours: Native) -> Tensor:
        y, at = torch.empty(x.shape[0], self._shape[0]), 0
        for part in self._parts:
            ours.int8_mm(part.blocks, part.scales, x, y[:, at : (at := at + part.scales.shape[0])])
        return y

    def _exact(self, x: Tensor) -> Tensor:
        digits, unit = _digits(x)
        found = []
        for part in self._parts:
            low, middle, high = _product(digits, part.packed, part.scales).view(3, x.shape[0], -1)
            # Products with powers of two are exact, so it is no matter which of these a loop fuses.
            found.append(low.add_(middle, alpha=2.0**8).add_(high, alpha=2.0**16).mul_(unit))
        return found[0] if len(found) == 1 else torch.cat(found, dim=1)

    def _many(self, x: Tensor) -> Tensor:
        """Every code is a bf16 number, so this is the same product with activations and sums rounded to bf16."""
        y, at = torch.empty(x.shape[0], self._shape[0], dtype=torch.bfloat16), 0
        for codes, scales in self._plain(_COPY):
            rows = slice(at, at := at + codes.shape[0])
            torch.mul(functional.linear(x, codes.to(torch.bfloat16)), scales.to(torch.bfloat16), out=y[:, rows])
        return y

    def _plain(self, step: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Codes (n, K) row by row and their scales, `step` or fewer at a time."""
        for part in self._parts:
            for blocks, scales in zip(
                torch.split(part.blocks, step // _BLOCK), torch.split(part.scales, step), strict=True
            ):
                yield _rows(blocks), scales


@dataclass(frozen=True, slots=True)
class _Between:
    """Some rows of a matrix."""

    rows: Rows
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.stop - self.start, self.rows.shape[1]

    def read(self, start: int, stop: int) -> Tensor:
        return self.rows.read(self.start + start, self.start + stop)


def _part_rows(columns: int) -> int:
    return max(_PART_BYTES // columns // _BLOCK, 1) * _BLOCK


def _packed_part(rows: Rows, start: int, stop: int) -> _Part:
    codes, scales = torch.empty(stop - start, rows.shape[1], dtype=torch.int8), torch.empty(stop - start)
    for at, chunk in chunks(_Between(rows, start, stop)):
        codes[at], scales[at] = int8_codes(chunk)
    packed = _pack(codes)
    blocks = _blocks(packed, *codes.shape)
    if not torch.equal(_rows(blocks[-1:]), codes[-_BLOCK:]):
        raise RuntimeError(f"oneDNN packs {list(codes.shape)} codes in another way than fewer of them")
    return _Part(packed, blocks, scales)


@lru_cache(maxsize=64)
def _packs(rows: int, columns: int) -> bool:
    """Whether oneDNN packs a matrix of this shape as `_blocks` reads it, and multiplies it exactly.

    The extremes of bytes tell: without VNNI, pairs of products are summed in 16 bits, and overflow.
    """
    codes = torch.randint(-127, 128, (rows, columns), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    codes[0] = 127
    digits = torch.stack((torch.full((columns,), 255), torch.zeros(columns), torch.arange(columns) % 256))
    try:
        packed = _pack(codes)
        y = _product(digits.to(torch.uint8), packed, torch.ones(rows))
        plain = _rows(_blocks(packed, rows, columns))
    except (AttributeError, RuntimeError):
        return False
    return torch.equal(plain, codes) and torch.equal(y, ((digits - 128).double() @ codes.double().T).float())


def _pack(codes: Tensor) -> Tensor:
    packed: Tensor = torch.ops.onednn.qlinear_prepack(codes, None)
    return packed


def _blocks(packed: Tensor, rows: int, columns: int) -> Tensor:
    """The memory of `packed`, whose blocks of 64 rows hold four columns of every row after the other; see `_Part`."""
    count = rows * columns // 4
    if torch.ops.mkldnn._nbytes(packed) < 4 * count:
        raise RuntimeError("oneDNN holds fewer bytes than codes")
    memory: Any = (ctypes.c_int32 * count).from_address(torch.ops.mkldnn.data_ptr(packed))
    return torch.frombuffer(memory, dtype=torch.int32).view(rows // _BLOCK, columns // 4, _BLOCK)


def _rows(blocks: Tensor) -> Tensor:
    """Codes (rows, K) of some blocks."""
    return blocks.transpose(1, 2).contiguous().view(torch.int8).view(-1, 4 * blocks.shape[1])


def _digits(x: Tensor) -> tuple[Tensor, Tensor]:
    """(3 M, K) bytes of M rows in fp32, all lowest digits before all middle and highest ones, each with 128 added; and
    what the lowest counts in each row, (M, 1).
    """
    unit = torch.linalg.vector_norm(x, torch.inf, 1, True).clamp_min_(_SMALLEST).mul_(1 / _TOP)
    numbers = x.div(unit).add_(_MIDDLE).to(torch.int32).view(torch.uint8)
    digits = numbers.view(x.shape[0], -1, 4)[..., :3].permute(2, 0, 1)
    return digits.reshape(-1, x.shape[1]), unit


_NO_ZEROS = torch.zeros(1, dtype=torch.int64)


def _product(digits: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    """(digits - 128) times codes, times the scales: (rows, N) in fp32."""
    y: Tensor = torch.ops.onednn.qlinear_pointwise.default(
        digits, 1.0, 128, packed, scales, _NO_ZEROS, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return y
