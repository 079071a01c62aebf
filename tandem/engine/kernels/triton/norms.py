"""The norms in Triton: see `tandem.engine.kernels.norms`. One program has one row: no other changes its bits."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tandem.engine.kernels.triton.common import power, sigmoid

__all__ = ["gated_rms_norm", "rms_norm"]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The twin's."""
    x = x.contiguous()
    out, size = torch.empty_like(x), x.shape[-1]
    _rms[(x.numel() // size,)](x, weight, out, eps, size, power(size), num_warps=_warps(size))
    return out


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The twin's."""
    x, gate = x.contiguous(), gate.contiguous()
    out, size = torch.empty_like(x), x.shape[-1]
    _gated[(x.numel() // size,)](x, gate, weight, out, eps, size, power(size), num_warps=_warps(size))
    return out


def _warps(size: int) -> int:
    return min(8, max(1, size // 256))


@triton.jit
def _rms(x, weight, out, eps, size, block: tl.constexpr):
    at = tl.arange(0, block)
    row, real = tl.program_id(0).to(tl.int64) * size, at < size
    wide = tl.load(x + row + at, mask=real, other=0.0).to(tl.float32)
    normed = wide * tl.rsqrt(tl.sum(wide * wide, 0) / size + eps)
    result = normed * tl.load(weight + at, mask=real, other=0.0).to(tl.float32)
    tl.store(out + row + at, result.to(out.dtype.element_ty), mask=real)


@triton.jit
def _gated(
    x,
    gate,
    weight,
    out,
    eps,
    size,
    block: tl.constexpr,
):
    at = tl.arange(0, block)
    row, real = tl.program_id(0).to(tl.int64) * size, at < size
    wide = tl.load(x + row + at, mask=real, other=0.0).to(tl.float32)
    normed = (wide * tl.rsqrt(tl.sum(wide * wide, 0) / size + eps)).to(out.dtype.element_ty).to(tl.float32)
    factor = tl.load(weight + at, mask=real, other=0.0).to(out.dtype.element_ty).to(tl.float32)
    # A product of two bf16 is exact in fp32, so this rounds once, as a product in bf16 does.
    scaled = (normed * factor).to(out.dtype.element_ty).to(tl.float32)
    opened = tl.load(gate + row + at, mask=real, other=0.0).to(tl.float32)
    tl.store(out + row + at, (scaled * (opened * sigmoid(opened))).to(out.dtype.element_ty), mask=real)
