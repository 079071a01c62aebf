"""Rotary positions in Triton: see `tandem.engine.kernels.rotary`. One program has one head of one row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tandem.engine.kernels.triton.common import inner, power

__all__ = ["rotary"]


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The twin's."""
    x = inner(x, 2)
    rows, heads, size = x.shape
    half = cos.shape[-1]
    rest = size - 2 * half
    out = torch.empty(rows, heads, size, dtype=x.dtype, device=x.device)
    if rows:
        _rotary[(rows, heads)](
            x, cos.contiguous(), sin.contiguous(), out, x.stride(0), heads, size, half, rest, power(half),
            power(rest) if rest else 0, num_warps=1,
        )  # fmt: skip
    return out


@triton.jit
def _rotary(
    x, cos, sin, out, x_row, heads, size,
    half, rest, pairs: tl.constexpr, others: tl.constexpr,
):  # fmt: skip
    t, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    source, to = x + t * x_row + h * size, out + (t * heads + h) * size
    pair = tl.arange(0, pairs)
    real = pair < half
    first = tl.load(source + pair, mask=real, other=0.0).to(tl.float32)
    second = tl.load(source + half + pair, mask=real, other=0.0).to(tl.float32)
    c = tl.load(cos + t * half + pair, mask=real, other=0.0).to(tl.float32)
    s = tl.load(sin + t * half + pair, mask=real, other=0.0).to(tl.float32)
    tl.store(to + pair, (first * c - second * s).to(out.dtype.element_ty), mask=real)
    tl.store(to + half + pair, (second * c + first * s).to(out.dtype.element_ty), mask=real)
    if others > 0:
        at = tl.arange(0, others)
        passed = at < rest
        tl.store(to + 2 * half + at, tl.load(source + 2 * half + at, mask=passed, other=0.0), mask=passed)
