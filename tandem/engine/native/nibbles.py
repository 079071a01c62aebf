"""How codes of 4 bits lie for `products.c`: (N / 16, K / 32, 320) bytes.

Of 16 outputs and 32 columns those are 256 bytes of codes, and 16 pairs of a scale and a zero in bf16.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["BLOCK", "GROUP", "GROUP_BYTES", "packed", "unpacked"]

GROUP = 32
"""Columns that share a scale and a zero."""
BLOCK = 16
"""Outputs that lie side by side."""
_CODES = BLOCK * GROUP // 2
GROUP_BYTES = _CODES + 4 * BLOCK


def packed(codes: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """Of codes (N, K) of 0…15, and scales and zeros (N, K / 32) in bf16. N must be a multiple of 16, K of 32."""
    (rows, columns), pairs = codes.shape, torch.stack((scales, zeros), dim=-1)
    # (blocks, 16 outputs, groups, halves, 4, 4 columns): the halves of a byte are 16 columns apart
    parts = codes.to(torch.uint8).view(rows // BLOCK, BLOCK, columns // GROUP, 2, 4, 4).permute(0, 2, 3, 4, 1, 5)
    low, high = parts.unbind(2)
    pairs = pairs.view(rows // BLOCK, BLOCK, columns // GROUP, 2).transpose(1, 2).contiguous()
    return torch.cat((torch.flatten(low | high << 4, 2), torch.flatten(pairs.view(torch.uint8), 2)), dim=-1)


def unpacked(made: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What `packed` was given; codes in int8."""
    blocks, groups, _ = made.shape
    codes, pairs = made[..., :_CODES], made[..., _CODES:]
    both = codes.reshape(blocks, groups, 1, 4, BLOCK, 4)
    parts = torch.cat((both & 15, both >> 4), dim=2).view(torch.int8).permute(0, 4, 1, 2, 3, 5)
    scales, zeros = pairs.contiguous().view(torch.bfloat16).view(blocks, groups, BLOCK, 2).unbind(-1)
    rows = blocks * BLOCK
    scales, zeros = (each.transpose(1, 2).reshape(rows, groups) for each in (scales, zeros))
    return parts.reshape(rows, groups * GROUP), scales, zeros
