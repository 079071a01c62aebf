"""Stored matrices as numbers in the type of activations, for a chunk's product: in few passes over memory.

The twins of `kernels/linear.py` say what the values are, in fp32. Here they are rounded once to the type that is asked
for, which changes no NVFP4 value in bf16. Every chunk of a prompt decodes the whole model, so the bytes that are moved
count: per element, as counted from the operations below, about 10 for NVFP4 and 7 for FP8 in bf16.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from tandem.engine.checkpoints.nvfp4 import E2M1
from tandem.engine.kernels.linear import BLOCK, GROUP, fp8_values

__all__ = ["fp8_decoded", "nvfp4_decoded", "pairs"]

_WORDS = {2: torch.int32, 4: torch.int64}


@lru_cache(maxsize=4)
def pairs(dtype: torch.dtype, device: torch.device) -> Tensor:
    """(256): the two numbers of every byte of NVFP4 codes, as one element, so that one look-up finds both."""
    byte = torch.arange(256)
    numbers = torch.tensor(E2M1)[torch.stack((byte & 15, byte >> 4), dim=-1)]
    return numbers.to(dtype).view(_WORDS[dtype.itemsize]).flatten().to(device)


def nvfp4_decoded(codes: Tensor, scales: Tensor, table: Tensor, dtype: torch.dtype) -> Tensor:
    """Codes (N, K / 2) times their groups' scales (N, K / 16): (N, K), for a `table` of `pairs` in `dtype`."""
    numbers = table.index_select(0, codes.flatten().int()).view(dtype)
    return numbers.view(*scales.shape, GROUP).mul_(scales.to(dtype)[..., None]).flatten(1)


def fp8_decoded(codes: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Codes (N, K) times their blocks' scales (N / 128, K / 128), both rounded up: (N, K)."""
    (rows, columns), exact = codes.shape, scales.dtype == torch.bfloat16
    if rows % BLOCK or columns % BLOCK or not (exact or dtype == torch.float32):
        return fp8_values(codes, scales).to(dtype)
    # A product of two bf16 is exact before it is rounded, so this rounds once as well.
    numbers = codes.to(dtype).view(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
    return numbers.mul_(scales.to(dtype)[:, None, :, None]).view(rows, columns)
