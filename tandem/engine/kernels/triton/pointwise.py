"""Steps number by number in Triton: see `tandem.engine.kernels.pointwise`. No number meets another."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tandem.engine.kernels.triton.common import inner, power, sigmoid

__all__ = ["delta_gates", "gated_silu"]

_BLOCK = 1024


def delta_gates(projected: Tensor, decay: Tensor, step_bias: Tensor) -> tuple[Tensor, Tensor]:
    """The twin's."""
    projected = inner(projected, 1)
    rows, heads = projected.shape[0], decay.shape[0]
    g = torch.empty(rows, heads, dtype=torch.float32, device=projected.device)
    beta = torch.empty(rows, heads, dtype=projected.dtype, device=projected.device)
    if rows:
        _gates[(rows,)](projected, decay, step_bias, g, beta, projected.stride(0), heads, power(heads), num_warps=1)
    return g, beta


def gated_silu(projected: Tensor) -> Tensor:
    """The twin's."""
    projected = inner(projected, 1)
    rows, columns = projected.shape[0], projected.shape[1] // 2
    out = torch.empty(rows, columns, dtype=projected.dtype, device=projected.device)
    if rows:
        _silu[(rows, triton.cdiv(columns, _BLOCK))](projected, out, projected.stride(0), columns, _BLOCK)
    return out


@triton.jit
def _gates(projected, decay, step_bias, g, beta, row_stride, heads, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    h = tl.arange(0, block)
    real = h < heads
    write = tl.load(projected + row * row_stride + h, mask=real, other=0.0).to(tl.float32)
    forget = tl.load(projected + row * row_stride + heads + h, mask=real, other=0.0).to(tl.float32)
    at = forget + tl.load(step_bias + h, mask=real, other=0.0)
    # softplus as max(x, 0) + log1p(e), where log1p(e) = e log(u) / (u - 1) keeps its digits for a small e (Kahan).
    e = tl.exp(-tl.abs(at))
    u = 1.0 + e
    small = tl.where(u == 1.0, e, e * tl.log(u) / tl.where(u == 1.0, 1.0, u - 1.0))
    rate = tl.maximum(at, 0.0) + small
    tl.store(g + row * heads + h, tl.load(decay + h, mask=real, other=0.0) * rate, mask=real)
    tl.store(beta + row * heads + h, sigmoid(write).to(beta.dtype.element_ty), mask=real)


@triton.jit
def _silu(projected, out, row_stride, columns, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * block + tl.arange(0, block)
    real = at < columns
    gate = tl.load(projected + row * row_stride + at, mask=real, other=0.0).to(tl.float32)
    up = tl.load(projected + row * row_stride + columns + at, mask=real, other=0.0).to(tl.float32)
    opened = (gate * sigmoid(gate)).to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + row * columns + at, (opened * up).to(out.dtype.element_ty), mask=real)
