"""Weights in NVFP4: 4-bit floats, an e4m3 scale a group of 16, one fp32 scale a matrix (ENG-023).

The layout is that of NVIDIA's ModelOpt exports: two codes a byte, the even column in the low half.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from tandem.engine.checkpoints.fp8 import e4m3_values

__all__ = ["E2M1", "GROUP", "Nvfp4"]

GROUP = 16
"""Columns that share a scale."""
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""What the codes 0 … 15 stand for: a sign bit, two of exponent, one of mantissa (OCP MX specification)."""
_LARGEST = 6.0 * 448.0
_BETWEEN = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""Sizes at which the nearest code changes."""


@dataclass(frozen=True, slots=True)
class Nvfp4:
    """value[n, k] = e2m1(codes[n, k]) x scales[n, k / 16] x scale."""

    codes: Tensor  # (N, K / 2) uint8
    scales: Tensor  # (N, K / 16) e4m3
    scale: Tensor  # () fp32

    format = "nvfp4"

    @property
    def shape(self) -> tuple[int, int]:
        rows, half = self.codes.shape
        return rows, 2 * half

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes + self.scale.nbytes

    def rows(self, start: int, stop: int) -> Tensor:
        """(stop - start, K) in fp32: code times group's scale is exact, its product with `scale` is rounded once."""
        scales = e4m3_values(self.scales[start:stop])
        values = _pairs().index_select(0, self.codes[start:stop].flatten().int()).view(torch.float32)
        values = values.view(*scales.shape, GROUP).mul_(scales[..., None])
        return values.mul_(self.scale.float()).flatten(1)

    @staticmethod
    def of(weight: Tensor) -> Nvfp4:
        """The nearest codes for `weight` (N, K), K a multiple of 16, the largest of a group at 6."""
        groups = weight.float().view(weight.shape[0], -1, GROUP)
        scale = groups.abs().amax() / _LARGEST
        if not scale:
            scale = torch.ones(())
        scales = (groups.abs().amax(dim=-1) / (6.0 * scale)).to(torch.float8_e4m3fn)
        steps = scales.float() * scale
        sizes = groups.abs() / torch.where(steps == 0, 1, steps)[..., None]
        codes = torch.bucketize(sizes, torch.tensor(_BETWEEN)) + 8 * (groups < 0)
        codes = codes.to(torch.uint8).view(weight.shape[0], -1, 2)
        return Nvfp4(codes[..., 0] | codes[..., 1] << 4, scales, scale)


@lru_cache(maxsize=1)
def _pairs() -> Tensor:
    """(256): what a byte stands for, two fp32 numbers held as one element, so that one look-up finds both."""
    byte = torch.arange(256)
    return torch.tensor(E2M1)[torch.stack((byte & 15, byte >> 4), dim=-1)].view(torch.int64).flatten()
