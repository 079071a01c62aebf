"""Attention of a few new rows over the keys and values of a sequence, the rows of a tree among them (ENG-008, 057)."""

from __future__ import annotations

import torch
from torch import Tensor

from tandem.engine.kernels.trees import seen

__all__ = ["decode_attention", "length_class"]

_SHORTEST = 256


def length_class(rows: int) -> int:
    """The class of a sequence of `rows`, by which alone a kernel splits: the next power of two, at least 256."""
    return max(_SHORTEST, 1 << (rows - 1).bit_length())


def decode_attention(
    q: Tensor, keys: Tensor, values: Tensor, base: Tensor, parents: Tensor, limit: int | None = None
) -> Tensor:
    """Queries (N, H, D) over a cache (Hk, L, D), query heads grouped over its heads: (N, H, D) in the type of `q`.

    Rows below `base` (() int32) of the cache are the committed prefix, which all see; the N rows from `base` on are the
    queries' own, of which each sees itself and its ancestors. `limit`, a `length_class` of at least base + N, is what a
    captured graph is made for; it changes no value here. Scores, softmax and sums are in fp32.
    """
    rows, heads, size = q.shape
    start = int(base)
    end = start + rows
    groups = heads // keys.shape[0]
    wide_keys = keys[:, :end].float().repeat_interleave(groups, 0)
    wide_values = values[:, :end].float().repeat_interleave(groups, 0)
    scores = torch.bmm(q.float().transpose(0, 1), wide_keys.transpose(1, 2)) * size**-0.5  # (H, N, end)
    scores[:, :, start:] = scores[:, :, start:].masked_fill(~seen(parents), -torch.inf)
    return torch.bmm(scores.softmax(-1), wide_values).transpose(0, 1).to(q.dtype)
