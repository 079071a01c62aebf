"""Pieces of a decoder layer that several model packages share, in plain torch and fp32.

Shapes in comments: T rows of the chunk, L rows in the cache after it, H query heads, K kv heads, D the size of a head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.kernels.trees import seen
from tandem.engine.models.matrix import Matrix
from tandem.engine.native import native

__all__ = ["attend", "behind", "causal", "joined", "parted", "rms", "rms_apart", "swiglu"]


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm (arXiv:1910.07467) of (T, hidden)."""
    if (ours := native()) is not None and (normed := ours.rms_norm(x, weight, eps)) is not None:
        return normed
    if x.shape[0] == 1:
        # Three small kernels in place of the six that torch takes on a CPU: decoding is made of calls.
        row = x[0]
        mean: float = torch.dot(row, row).item() / row.shape[0]
        return x * (weight * (1 / math.sqrt(mean + eps)))
    return functional.rms_norm(x, weight.shape, weight, eps)


def rms_apart(x: Tensor, counts: Sequence[int], weight: Tensor, eps: float) -> Tensor:
    """`rms` of so many rows of each sequence, each with the bits that it has alone (ENG-162)."""
    return joined([rms(part, weight, eps) for part in parted(x, counts)])


def parted(x: Tensor, counts: Sequence[int]) -> Sequence[Tensor]:
    """So many rows of each sequence; of one, `x` itself, which costs no call."""
    return [x] if len(counts) == 1 else torch.split_with_sizes(x, list(counts))


def joined(parts: Sequence[Tensor]) -> Tensor:
    """The rows of several sequences, one after the other; those of one as they lie."""
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts))


def swiglu(x: Tensor, gate_up: Matrix, down: Matrix) -> Tensor:
    """The gated MLP (arXiv:2002.05202); `gate_up` gives the gate's features before the others."""
    gate, up = gate_up(x).chunk(2, dim=-1)
    return down(functional.silu(gate).mul_(up))


def causal(start: int, end: int) -> Tensor | None:
    """What rows start…end - 1 add to their scores over all rows below `end`: 0 where seen, -inf where not yet.

    None where no mask is needed: a single row sees everything, and a chunk from row 0 has torch's own causal form.
    """
    if start == 0 or end - start == 1:
        return None
    unseen = torch.full((end - start, end), -torch.inf)
    return unseen.triu_(start + 1)


def behind(parents: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Of the rows of a tree behind the first `start` rows: their positions (N), and what they add to their scores over
    all rows (N, start + N), as in `causal`: a row sees the prefix, its ancestors and itself (ENG-057).
    """
    sees = seen(parents)
    mask = torch.zeros(len(parents), start + len(parents))
    mask[:, start:].masked_fill_(~sees, -torch.inf)
    return start - 1 + sees.sum(dim=1), mask


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax attention of (T, H, D) over (1, K, L, D), query heads grouped over the kv heads: (T, H D)."""
    if (ours := native()) is not None and (made := ours.attention(q, k, v, mask)) is not None:
        return made
    rows, heads, size = q.shape
    if rows == 1:
        # The group's heads as rows of one kv head: each key is read once for all of them, and nothing is copied.
        grouped = q.view(1, k.shape[1], -1, size)
        return functional.scaled_dot_product_attention(grouped, k, v).reshape(1, -1)
    mixed = functional.scaled_dot_product_attention(
        q.transpose(0, 1)[None], k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=heads != k.shape[1]
    )
    return mixed[0].transpose(0, 1).reshape(rows, -1)
