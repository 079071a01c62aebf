"""Where the rows of a prompt with images stand on the three rotary axes (M-RoPE: Qwen2-VL, arXiv:2409.12191; ENG-099).

A text row has one number on all axes. The rows of an image share the time of its first row; height and width count its
merged patches from there. Text goes on at the highest position plus one, so an image of h x w rows takes only the
longer of the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tandem.engine.text.images import PromptImage

__all__ = ["row_positions"]


def row_positions(images: Sequence[PromptImage], start: int, end: int) -> Tensor:
    """Time, height and width, (3, end - start) int64, of rows `start` to below `end` of a prompt with `images`."""
    positions = torch.arange(start, end).repeat(3, 1)
    offset = 0
    for image in images:
        if image.start >= end:
            break
        across, down = image.patches.across, image.patches.down
        low, high = max(image.start, start), min(image.stop, end)
        if low < high:
            at = torch.arange(low, high) - image.start
            inside = torch.stack((torch.zeros_like(at), at // across, at % across))
            positions[:, low - start : high - start] = image.start + offset + inside
        offset += max(across, down) - image.patches.rows
        behind = max(image.stop, start)
        positions[:, behind - start :] = torch.arange(behind, max(behind, end)) + offset
    return positions
