"""The causal convolution in Triton: see `tandem.engine.kernels.conv`. No channel meets another."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tandem.engine.kernels.triton.common import inner, power, sigmoid

__all__ = ["causal_conv", "conv_commit", "conv_verify"]

_CHANNELS = 256


def causal_conv(x: Tensor, tail: Tensor, weight: Tensor, new: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The twin's."""
    new = torch.empty(tail.shape, dtype=tail.dtype, device=tail.device) if new is None else new
    return _launch(x, tail, weight, x, new, chained=True), new


def conv_verify(x: Tensor, tail: Tensor, weight: Tensor, parents: Tensor) -> Tensor:
    """The twin's."""
    return _launch(x, tail, weight, parents.contiguous(), tail, chained=False)


def conv_commit(tail: Tensor, x: Tensor, path: Tensor, new: Tensor | None = None) -> Tensor:
    """The twin's; `new` may be given, and may be `tail` itself, which is then written."""
    before, channels = tail.shape
    tail, x = tail.contiguous(), inner(x, 1)
    new = torch.empty_like(tail) if new is None else new
    length = path.shape[0]
    _commit[(triton.cdiv(channels, _CHANNELS),)](
        tail, x, path.contiguous(), new, x.stride(0), length, channels, power(max(length, 1)), power(before), before,
        _CHANNELS,
    )  # fmt: skip
    return new


def _launch(x: Tensor, tail: Tensor, weight: Tensor, parents: Tensor, new: Tensor, *, chained: bool) -> Tensor:
    rows, channels = x.shape
    x, tail = inner(x, 1), tail.contiguous()
    out = torch.empty(rows, channels, dtype=x.dtype, device=x.device)
    if rows == 0:
        new.copy_(tail)
        return out
    tile = 16 if rows > 32 else 4
    _conv[(triton.cdiv(rows, tile), triton.cdiv(channels, _CHANNELS))](
        x, tail, weight, parents, out, new, x.stride(0), *weight.stride(), rows, channels,
        weight.shape[1], chained, tile, _CHANNELS,
    )  # fmt: skip
    return out


@triton.jit
def _conv(
    x, tail, weight, parents, out, new,
    x_row, weight_row, weight_column, rows, channels,
    width: tl.constexpr, chained: tl.constexpr, bt: tl.constexpr, bc: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * bt + tl.arange(0, bt)
    c = tl.program_id(1) * bc + tl.arange(0, bc)
    here, real = t < rows, c < channels
    total = tl.zeros((bt, bc), tl.float32)
    for step in tl.static_range(width):
        at = t
        for _ in tl.static_range(width - 1 - step):
            if chained:
                at = at - 1
            else:
                above = tl.load(parents + at, mask=here & (at >= 0), other=-1).to(tl.int32)
                at = tl.where(at >= 0, above, at - 1)
        read = tl.load(
            x + at[:, None].to(tl.int64) * x_row + c[None, :],
            mask=(here & (at >= 0))[:, None] & real[None, :],
            other=0.0,
        ).to(tl.float32)
        kept = tl.load(
            tail + (at[:, None] + width - 1) * channels + c[None, :],
            mask=(here & (at < 0))[:, None] & real[None, :],
            other=0.0,
        ).to(tl.float32)
        factor = tl.load(weight + c * weight_row + step * weight_column, mask=real, other=0.0).to(tl.float32)
        total += tl.where((at >= 0)[:, None], read, kept) * factor[None, :]
    total = total.to(out.dtype.element_ty).to(tl.float32)
    result = (total * sigmoid(total)).to(out.dtype.element_ty)
    tl.store(out + t[:, None].to(tl.int64) * channels + c[None, :], result, mask=here[:, None] & real[None, :])
    if chained:  # noqa: SIM102 - decided when it is compiled
        if tl.program_id(0) == 0:
            for slot in tl.static_range(width - 1):
                source = rows - (width - 1) + slot
                line = tl.zeros((bc,), tl.int64) + source
                fresh = tl.load(x + line * x_row + c, mask=real & (line >= 0), other=0.0).to(new.dtype.element_ty)
                old = tl.load(tail + (line + width - 1) * channels + c, mask=real & (line < 0), other=0.0)
                tl.store(new + slot * channels + c, tl.where(line >= 0, fresh, old), mask=real)


@triton.jit
def _commit(
    tail, x, path, new, x_row, length, channels,
    most: tl.constexpr, slots: tl.constexpr, before: tl.constexpr, bc: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * bc + tl.arange(0, bc)
    real = c < channels
    p, slot = tl.arange(0, most), tl.arange(0, slots)
    count = tl.sum((tl.load(path + p, mask=p < length, other=-1) >= 0).to(tl.int32), 0)
    source = count - before + slot  # the place on the path whose input fills each slot; below 0 it is in the old tail
    valid = slot < before
    row = tl.load(path + source, mask=valid & (source >= 0), other=0).to(tl.int64)
    fresh = tl.load(
        x + row[:, None] * x_row + c[None, :], mask=(valid & (source >= 0))[:, None] & real[None, :], other=0.0
    )
    kept = tl.load(
        tail + (source + before)[:, None] * channels + c[None, :],
        mask=(valid & (source < 0))[:, None] & real[None, :],
        other=0.0,
    )
    # All reads of a channel come before its writes, so `new` may be `tail`.
    result = tl.where((source >= 0)[:, None], fresh.to(new.dtype.element_ty), kept)
    tl.store(new + slot[:, None] * channels + c[None, :], result, mask=valid[:, None] & real[None, :])
