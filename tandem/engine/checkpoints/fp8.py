"""Weights in 8-bit floats: e4m3 codes with a scale per block of 128 x 128, or per row (ENG-022).

e4m3 (arXiv:2209.05433, the finite variant) keeps four bits of a number and a bf16 scale eight, so a product of the two
is exact in fp32: decoding rounds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["BLOCK", "E4M3_MAX", "Fp8Blocks", "Fp8Rows", "block_scales_shape", "e4m3_values"]

BLOCK = 128
E4M3_MAX = 448.0
_SIGN_FOLLOWER, _SIZE, _LARGEST = ~0x4000, 0x7FFF, 0x3F00


def e4m3_values(codes: Tensor) -> Tensor:
    """What e4m3 codes stand for, in fp32: two and a half times as fast as torch's own conversion.

    A code moved left by seven bits is the fp16 number of the same exponent and mantissa, whose bias is larger by eight;
    subnormal ones included. Only the two codes that are no number would become one.
    """
    bits = codes.view(torch.int8).to(torch.int16).bitwise_left_shift_(7).bitwise_and_(_SIGN_FOLLOWER)
    if bits.numel() and int(bits.bitwise_and(_SIZE).amax()) > _LARGEST:
        return codes.float()
    return bits.view(torch.float16).float().mul_(256.0)


def block_scales_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """The scales of a matrix (N, K): one a block, blocks at the lower and right edge cut off."""
    rows, columns = shape
    return -(-rows // BLOCK), -(-columns // BLOCK)


@dataclass(frozen=True, slots=True)
class _Fp8:
    """Codes and what they are multiplied by."""

    codes: Tensor  # (N, K) e4m3
    scales: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.codes.shape
        return rows, columns

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes


@dataclass(frozen=True, slots=True)
class Fp8Blocks(_Fp8):
    """value[n, k] = codes[n, k] x scales[n / 128, k / 128].

    Scales (N / 128, K / 128), each rounded up, are bf16 or fp32.
    """

    format = "fp8"

    def rows(self, start: int, stop: int) -> Tensor:
        """(stop - start, K) in fp32."""
        first = start // BLOCK
        scales = self.scales[first : -(-stop // BLOCK)].float()
        columns = self.codes.shape[1]
        of_column = scales.repeat_interleave(BLOCK, dim=1)[:, :columns]  # (blocks, K)
        values = e4m3_values(self.codes[start:stop])
        for block, scale in enumerate(of_column, first):
            values[max(block * BLOCK - start, 0) : (block + 1) * BLOCK - start] *= scale
        return values

    @staticmethod
    def of(weight: Tensor) -> Fp8Blocks:
        """The nearest codes for `weight` (N, K), the largest of a block at 448, scales in bf16."""
        rows, columns = weight.shape
        padded = torch.zeros(*(BLOCK * blocks for blocks in block_scales_shape((rows, columns))))
        padded[:rows, :columns] = weight
        blocks = padded.view(padded.shape[0] // BLOCK, BLOCK, -1, BLOCK)
        scales = (blocks.abs().amax(dim=(1, 3)) / E4M3_MAX).to(torch.bfloat16)
        codes = _codes(blocks, scales.float()[:, None, :, None]).view(padded.shape)
        return Fp8Blocks(codes[:rows, :columns].contiguous(), scales)


@dataclass(frozen=True, slots=True)
class Fp8Rows(_Fp8):
    """value[n, k] = codes[n, k] x scales[n]; scales (N) in fp32. The form of a head."""

    format = "fp8-rows"

    def rows(self, start: int, stop: int) -> Tensor:
        """(stop - start, K) in fp32, each value rounded once."""
        return e4m3_values(self.codes[start:stop]).mul_(self.scales[start:stop].float()[:, None])

    @staticmethod
    def of(weight: Tensor) -> Fp8Rows:
        """The nearest codes for `weight` (N, K), the largest of a row at 448."""
        scales = weight.abs().amax(dim=1).float() / E4M3_MAX
        return Fp8Rows(_codes(weight, scales[:, None]), scales)


def _codes(weight: Tensor, scales: Tensor) -> Tensor:
    divided = weight.float() / torch.where(scales == 0, 1, scales)
    return divided.clamp_(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
