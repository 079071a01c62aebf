"""Products of 1 to 32 rows with stored matrices in Triton: see `tandem.engine.kernels.linear`.

One program has `bn` outputs and one part of the inputs, for all rows at once: its weights are read once, decoded in
registers, and multiplied by a tile that always has 32 rows, those that are not there being zeros. Tiles, the parts of
the inputs and so the order of every sum follow from (N, K) alone, nothing is added atomically, no row meets another: a
row's bits are the same alone and among 31 others (ENG-027). A second kernel sums the parts in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from tandem.engine.kernels.linear import BLOCK, GROUP
from tandem.engine.kernels.triton.common import precision

__all__ = ["ROWS", "Tiles", "fp8_linear", "head", "nvfp4_linear", "tiles"]

ROWS = 32
"""Rows of the tile of every product."""
_PROGRAMS = 264
"""What a launch should have at least, two for each of an H200's processors. Tiles know no device."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """How a product is cut."""

    bn: int
    bk: int
    parts: int  # of the inputs
    part: int  # inputs of one, a multiple of bk


def tiles(n: int, k: int) -> Tiles:
    """The cut of a matrix (N, K); no part is shorter than four tiles."""
    bn, bk = (64 if n > 64 else 32 if n > 32 else 16), BLOCK
    steps, parts = triton.cdiv(k, bk), 1
    while parts * triton.cdiv(n, bn) < _PROGRAMS and steps >= 8 * parts:
        parts *= 2
    each = triton.cdiv(steps, parts)
    return Tiles(bn, bk, triton.cdiv(steps, each), each * bk)


def nvfp4_linear(x: Tensor, codes: Tensor, scales: Tensor, scale: Tensor) -> Tensor:
    """The twin's, for at most 32 rows."""
    x, (n, k) = x.contiguous(), (codes.shape[0], 2 * codes.shape[1])
    cut, grid, sums, out = _room(x, n, k, x.dtype)
    _nvfp4[grid](
        x, codes, scales.view(torch.uint8), scale, sums, x.shape[0], n, k, cut.part, cut.bn, cut.bk, ROWS, GROUP,
        precision(x),
    )  # fmt: skip
    return _sum_parts(sums, out)


def fp8_linear(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    """The twin's, for at most 32 rows."""
    x, (n, k) = x.contiguous(), codes.shape
    cut, grid, sums, out = _room(x, n, k, x.dtype)
    _fp8[grid](
        x, codes.view(torch.uint8), scales, sums, x.shape[0], n, k, cut.part, cut.bn, cut.bk, ROWS, BLOCK,
        precision(x),
    )  # fmt: skip
    return _sum_parts(sums, out)


def head(x: Tensor, weight: Tensor, scales: Tensor | None = None) -> Tensor:
    """The twin's, for at most 32 rows. Products are in the type of `x`."""
    x, (n, k) = x.contiguous(), weight.shape
    cut, grid, sums, out = _room(x, n, k, torch.float32)
    coded = weight.dtype == torch.float8_e4m3fn
    _dense[grid](
        x, weight.view(torch.uint8) if coded else weight, x if scales is None else scales, sums, x.shape[0], n, k,
        cut.part, cut.bn, cut.bk, ROWS, coded, scales is not None, precision(x),
    )  # fmt: skip
    return _sum_parts(sums, out)


def _room(x: Tensor, n: int, k: int, dtype: torch.dtype) -> tuple[Tiles, tuple[int, int], Tensor, Tensor]:
    rows = x.shape[0]
    if rows > ROWS:
        raise ValueError(f"{rows} rows are more than the kernel's {ROWS}")
    cut = tiles(n, k)
    out = torch.empty(rows, n, dtype=dtype, device=x.device)
    sums = torch.empty(cut.parts, rows, n, dtype=torch.float32, device=x.device) if cut.parts > 1 else out[None]
    return cut, (triton.cdiv(n, cut.bn), cut.parts), sums, out


def _sum_parts(sums: Tensor, out: Tensor) -> Tensor:
    parts, count = sums.shape[0], out.numel()
    if parts > 1:
        _add[(triton.cdiv(count, 1024),)](sums, out, count, parts, 1024)
    return out


@triton.jit
def _add(sums, out, count, parts: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    real = at < count
    total = tl.load(sums + at, mask=real, other=0.0)
    for part in tl.static_range(1, parts):
        total += tl.load(sums + part * count + at, mask=real, other=0.0)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=real)


@triton.jit
def _store(total, sums, columns, rows, n, tile: tl.constexpr):
    """(bn, tile) into (rows, n) of this program's part."""
    r = tl.arange(0, tile)
    to = sums + (tl.program_id(1) * rows + r[None, :]) * n + columns[:, None]
    tl.store(to, total.to(sums.dtype.element_ty), mask=(columns < n)[:, None] & (r < rows)[None, :])


@triton.jit
def _inputs(x, at, rows, k, tile: tl.constexpr):
    """The inputs `at` of all rows: (inputs, tile)."""
    r = tl.arange(0, tile)
    return tl.load(x + r[None, :] * k + at[:, None], mask=(r < rows)[None, :] & (at < k)[:, None], other=0.0)


@triton.jit
def _e2m1(code):
    """Codes 0 … 15 over 2¹⁴ in fp32, exact: a code's bits are those of an fp16 number of that size."""
    bits = ((code & 7).to(tl.uint16) << 9) | ((code & 8).to(tl.uint16) << 12)
    return bits.to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _nvfp4(
    x, codes, scales, scale, sums, rows, n, k, part,
    bn: tl.constexpr, bk: tl.constexpr, tile: tl.constexpr, group: tl.constexpr, how: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(0) * bn + tl.arange(0, bn)
    line = columns.to(tl.int64)[:, None]
    pair = tl.arange(0, bk // 2)
    total = tl.zeros((bn, tile), tl.float32)
    first = tl.program_id(1) * part
    for begin in range(first, tl.minimum(first + part, k), bk):
        at = begin // 2 + pair
        real = (columns < n)[:, None] & (at < k // 2)[None, :]
        code = tl.load(codes + line * (k // 2) + at[None, :], mask=real, other=0)
        steps = tl.load(scales + line * (k // group) + (at // (group // 2))[None, :], mask=real, other=0)
        steps = steps.to(tl.float8e4nv, bitcast=True).to(tl.float32) * 16384.0
        # A code times its scale has 6 significant bits: nothing is lost in bf16. Even and odd inputs are two products.
        even = (_e2m1(code & 15) * steps).to(x.dtype.element_ty)
        odd = (_e2m1(code >> 4) * steps).to(x.dtype.element_ty)
        total = tl.dot(even, _inputs(x, 2 * at, rows, k, tile), total, input_precision=how)
        total = tl.dot(odd, _inputs(x, 2 * at + 1, rows, k, tile), total, input_precision=how)
    _store(total * tl.load(scale), sums, columns, rows, n, tile)


@triton.jit
def _fp8(
    x, codes, scales, sums, rows, n, k, part,
    bn: tl.constexpr, bk: tl.constexpr, tile: tl.constexpr, block: tl.constexpr, how: tl.constexpr,
):  # fmt: skip
    """A tile lies in one block, as bn divides 128 and bk is 128: its sum is scaled, not its codes."""
    columns = tl.program_id(0) * bn + tl.arange(0, bn)
    step = tl.arange(0, bk)
    total = tl.zeros((bn, tile), tl.float32)
    first = tl.program_id(1) * part
    over = scales + (tl.program_id(0) * bn // block) * tl.cdiv(k, block)
    for begin in range(first, tl.minimum(first + part, k), bk):
        at = begin + step
        real = (columns < n)[:, None] & (at < k)[None, :]
        code = tl.load(codes + columns.to(tl.int64)[:, None] * k + at[None, :], mask=real, other=0)
        value = code.to(tl.float8e4nv, bitcast=True).to(x.dtype.element_ty)
        block_sum = tl.dot(value, _inputs(x, at, rows, k, tile), input_precision=how)
        total += block_sum * tl.load(over + begin // block).to(tl.float32)
    _store(total, sums, columns, rows, n, tile)


@triton.jit
def _dense(
    x, weight, scales, sums, rows, n, k, part,
    bn: tl.constexpr, bk: tl.constexpr, tile: tl.constexpr, coded: tl.constexpr, scaled: tl.constexpr,
    how: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(0) * bn + tl.arange(0, bn)
    step = tl.arange(0, bk)
    total = tl.zeros((bn, tile), tl.float32)
    first = tl.program_id(1) * part
    for begin in range(first, tl.minimum(first + part, k), bk):
        at = begin + step
        real = (columns < n)[:, None] & (at < k)[None, :]
        value = tl.load(weight + columns.to(tl.int64)[:, None] * k + at[None, :], mask=real, other=0)
        if coded:
            value = value.to(tl.float8e4nv, bitcast=True)
        total = tl.dot(value.to(x.dtype.element_ty), _inputs(x, at, rows, k, tile), total, input_precision=how)
    if scaled:
        total *= tl.load(scales + columns, mask=columns < n, other=0.0).to(tl.float32)[:, None]
    _store(total, sums, columns, rows, n, tile)
