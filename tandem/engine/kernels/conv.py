"""The causal convolution in front of a Gated DeltaNet head, channel by channel, with SiLU behind it (ENG-007).

    out[t] = silu(Σ_i weight[:, i] · x[t - W + 1 + i])

Rows before the first are the tail: the last W - 1 inputs, oldest first, which is all that the sequence keeps of it. The
sum is taken in fp32, oldest input first, and rounded to the type of `x`; SiLU is taken of that and rounded again. A
row's bits do not depend on the rows beside it where C is a multiple of 32 (torch's loops have a scalar remainder).
Shapes: T or N rows, C channels, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.kernels.trees import climb

__all__ = ["causal_conv", "conv_commit", "conv_verify"]


def causal_conv(x: Tensor, tail: Tensor, weight: Tensor, new: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(T, C) behind `tail` (W - 1, C) through `weight` (C, W): the activations (T, C) and the tail after the last row.

    The new tail lies in `new`, which is not `tail`, or shares no memory with what was given.
    """
    rows, before = x.shape[0], tail.shape[0]
    inputs = torch.cat((tail, x.to(tail.dtype)))  # (W - 1 + T, C)
    shifted = [inputs[step : step + rows] for step in range(before + 1)]
    after = inputs[rows:]
    return _mix(shifted, weight, x.dtype), after.clone() if new is None else new.copy_(after)


def conv_verify(x: Tensor, tail: Tensor, weight: Tensor, parents: Tensor) -> Tensor:
    """The activations of the rows (N, C) of a tree behind `tail`: each over its W - 1 nearest ancestors (ENG-057)."""
    before = tail.shape[0]
    inputs = torch.cat((tail, x.to(tail.dtype)))
    ways = climb(parents, before).flip(0) + before  # oldest first; the prefix's rows are 0 … W - 2
    return _mix([*inputs[ways], x], weight, x.dtype)


def conv_commit(tail: Tensor, x: Tensor, path: Tensor) -> Tensor:
    """The tail after the rows `path` of the inputs `x` (N, C) that a verify read; no weight is read (ENG-058)."""
    rows = path[path >= 0]
    return torch.cat((tail, x[rows].to(tail.dtype)))[rows.shape[0] :].clone()


def _mix(inputs: list[Tensor], weight: Tensor, dtype: torch.dtype) -> Tensor:
    factors = weight.float().t()  # (W, C)
    total = inputs[0].float() * factors[0]
    for each, factor in zip(inputs[1:], factors[1:], strict=True):
        total = total.addcmul_(each.float(), factor)  # in place: a chunk's sums are larger than the caches
    return functional.silu(total.to(dtype))
