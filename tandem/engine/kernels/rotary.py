"""Rotary positions on the first R elements of each head (RoFormer, arXiv:2104.09864), pairs half of R apart (ENG-008).

Positions may have three axes (time, height, width): each pair of elements then follows one of them, the axes taking
turns, as `qwen3_5` lays them (interleaved; Qwen3-VL, arXiv:2511.21631).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["axes_of_pairs", "rotary", "rotary_table"]


def axes_of_pairs(pairs: int, sections: Sequence[int]) -> Tensor:
    """Which axis each of R / 2 pairs follows: (pairs) int64, of sections such as (11, 11, 10).

    Pair 3 i + a follows axis a for the first `sections[a]` values of i; all others follow axis 0.
    """
    axes = torch.zeros(pairs, dtype=torch.int64)
    for axis, count in enumerate(sections[1:], start=1):
        axes[axis : 3 * count : 3] = axis
    return axes


def rotary_table(positions: Tensor, frequencies: Tensor, axes: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each pair's angle, two (T, R / 2) in fp32, of positions (T), or (3, T) where `axes` is given.

    Angles are products in fp32, as the reference takes them. Equal positions on all axes give the bits of one axis.
    """
    if axes is None:
        angles = positions.float()[:, None] * frequencies.float()
    else:
        angles = positions.float()[axes].t() * frequencies.float()
    return angles.cos(), angles.sin()


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Heads (T, H, D) turned by a table of (T, R / 2); elements from R on pass. In fp32, rounded once."""
    half = cos.shape[-1]
    first, second = x[..., :half].float(), x[..., half : 2 * half].float()
    cos, sin = cos[:, None], sin[:, None]
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
    return torch.cat((turned, x[..., 2 * half :]), dim=-1) if 2 * half < x.shape[-1] else turned
