"""Products with matrices that stay as they are stored: NVFP4, FP8 blocks, and the head (ENG-011, 022, 023).

Values are exact in all of them: a 4-bit code times its group's e4m3 scale has 6 significant bits, an e4m3 code times
its block's bf16 scale 12. The twins sum in fp32 over values in fp32 and round once.

Shapes: M rows, K inputs, N outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["BLOCK", "GROUP", "fp8_linear", "fp8_values", "head", "nvfp4_linear", "nvfp4_values"]

BLOCK = 128
"""Rows and columns of FP8 codes that share a scale."""
GROUP = 16
"""Columns of NVFP4 codes that share a scale."""


def nvfp4_values(codes: Tensor, scales: Tensor) -> Tensor:
    """Codes (N, K / 2) uint8, low half first, times scales (N, K / 16) e4m3: (N, K) in fp32, exact.

    A code is a sign bit, two of exponent and one of mantissa: twice its size is the mantissa, or 2 + mantissa shifted.
    """
    pairs = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(1).int()  # (N, K)
    exponent, mantissa = (pairs >> 1) & 3, pairs & 1
    twice = torch.where(exponent == 0, mantissa, (mantissa + 2) << (exponent - 1).clamp(min=0))
    sizes = twice.float() * torch.where(pairs < 8, 0.5, -0.5)
    return (sizes.view(codes.shape[0], -1, GROUP) * scales.float()[..., None]).flatten(1)


def nvfp4_linear(x: Tensor, codes: Tensor, scales: Tensor, scale: Tensor) -> Tensor:
    """(M, K) times NVFP4 weights: (M, N) in the type of `x`. `scale` (() in fp32) is applied to the sums."""
    return (functional.linear(x.float(), nvfp4_values(codes, scales)) * scale.float()).to(x.dtype)


def fp8_values(codes: Tensor, scales: Tensor) -> Tensor:
    """Codes (N, K) e4m3 times scales (N / 128, K / 128), both rounded up: (N, K) in fp32, exact for bf16 scales."""
    rows, columns = codes.shape
    wide = scales.float().repeat_interleave(BLOCK, 0)[:rows].repeat_interleave(BLOCK, 1)[:, :columns]
    return codes.float() * wide


def fp8_linear(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    """(M, K) times FP8 blocks: (M, N) in the type of `x`."""
    return functional.linear(x.float(), fp8_values(codes, scales)).to(x.dtype)


def head(x: Tensor, weight: Tensor, scales: Tensor | None = None) -> Tensor:
    """(M, K) to logits (M, N) in fp32, of a weight (N, K) in bf16 or fp32, or in e4m3 with fp32 `scales` a row (N)."""
    logits = functional.linear(x.float(), weight.float())
    return logits if scales is None else logits * scales.float()
