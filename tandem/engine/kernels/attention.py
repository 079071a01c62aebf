"""Attention of a few new rows over the keys and values of a sequence, the rows of a tree among them (ENG-008, 057)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.kernels.trees import seen

__all__ = ["chunk_attention", "decode_attention", "length_class"]

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


def chunk_attention(end: int, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Queries (T, H, D), the newest of the `end` rows of a cache (Hk, L, D): (T, H, D). Torch's own kernels serve."""
    rows, groups = q.shape[0], q.shape[1] // keys.shape[0]
    mask = None if rows == end else _lower_right(rows, end, q.device)
    mixed = functional.scaled_dot_product_attention(
        q.transpose(0, 1)[None],
        keys[None, :, :end],
        values[None, :, :end],
        attn_mask=mask,
        is_causal=mask is None,
        enable_gqa=groups > 1,
    )
    return mixed[0].transpose(0, 1)


def _lower_right(rows: int, end: int, device: torch.device) -> Tensor:
    """What the newest `rows` of `end` rows see; on CUDA a word to the kernel, for a mask takes rows times end."""
    if device.type == "cuda":
        # It imports a compiler and Triton, which nothing on the CPU may need.
        from torch.nn.attention.bias import causal_lower_right

        return causal_lower_right(rows, end)
    return torch.ones(rows, end, dtype=torch.bool, device=device).tril_(end - rows)
