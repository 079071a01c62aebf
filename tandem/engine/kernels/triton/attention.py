"""Decode attention in Triton: see `tandem.engine.kernels.attention`.

The rows of the cache are cut into parts by the length class alone (flash-decoding, Dao et al. 2023); one program has
one part for one kv head and a tile of its queries, so keys and values are read once for a whole group of heads. Each
part leaves its sum, its largest score and its weight; a second kernel joins the parts, without atomics. How far the
sequence reaches is read from device memory, so one captured graph serves a whole class of lengths.
"""

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from tandem.engine.kernels.attention import length_class
from tandem.engine.kernels.triton.common import inner, power, precision

__all__ = ["decode_attention", "parts"]

_PART = 256
_MOST_PARTS = 64


def parts(limit: int) -> int:
    """Into how many parts a length class is cut."""
    return min(_MOST_PARTS, limit // _PART)


def decode_attention(
    q: Tensor, keys: Tensor, values: Tensor, base: Tensor, parents: Tensor, limit: int | None = None
) -> Tensor:
    """The twin's, for at most 32 rows. Without `limit` the class is that of the whole cache."""
    rows, heads, size = q.shape
    if rows > 32:
        raise ValueError(f"{rows} rows are more than the kernel's 32")
    limit = length_class(keys.shape[1]) if limit is None else limit
    group, cut = heads // keys.shape[0], parts(limit)
    q, keys, values = inner(q, 2), inner(keys, 1), inner(values, 1)
    queries = rows * group
    bq = min(power(queries, 16), 64)
    room = partial(torch.empty, dtype=torch.float32, device=q.device)
    sums = room((cut, rows, heads, size))
    marks = room((2, cut, rows, heads))  # largest score, weight
    out = torch.empty(rows, heads, size, dtype=q.dtype, device=q.device)
    _attend[(keys.shape[0] * triton.cdiv(queries, bq), cut)](
        q, keys, values, base, parents.contiguous(), sums, marks,
        q.stride(0), keys.stride(0), keys.stride(1), values.stride(0), values.stride(1),
        rows, heads, size**-0.5, limit // cut, group, size, bq, 64, precision(q),
        num_warps=4 if bq < 64 else 8, num_stages=2,
    )  # fmt: skip
    _join[(rows * heads,)](sums, marks, out, rows * heads, cut, size)
    return out


@triton.jit
def _attend(
    q, keys, values, base, parents, sums, marks,
    q_row, key_head, key_row, value_head, value_row,
    rows, heads, scale, span,
    group: tl.constexpr, size: tl.constexpr, bq: tl.constexpr, bl: tl.constexpr, how: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(rows * group, bq)
    kv, part = (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(1)
    flat = (tl.program_id(0) % tiles) * bq + tl.arange(0, bq)
    row, head = flat // group, kv * group + flat % group
    here = row < rows
    bits, at = (1 << row), row  # what each row sees of the tree, a bit a row
    for _ in range(rows - 1):
        at = tl.load(parents + at, mask=here & (at >= 0), other=-1).to(tl.int32)
        bits = tl.where(at >= 0, bits | (1 << tl.maximum(at, 0)), bits)
    d, offset = tl.arange(0, size), tl.arange(0, bl)
    query = tl.load(q + row[:, None] * q_row + head[:, None] * size + d[None, :], mask=here[:, None], other=0.0)
    known = tl.load(base)
    top = tl.full((bq,), float("-inf"), tl.float32)
    weight = tl.zeros((bq,), tl.float32)
    total = tl.zeros((bq, size), tl.float32)
    for begin in range(part * span, tl.minimum((part + 1) * span, known + rows), bl):
        where = begin + offset
        real = where < tl.minimum((part + 1) * span, known + rows)
        line = where.to(tl.int64)
        key = tl.load(keys + kv * key_head + line[None, :] * key_row + d[:, None], mask=real[None, :], other=0.0)
        score = tl.dot(query, key.to(query.dtype), input_precision=how) * scale
        of_tree = tl.minimum(tl.maximum(where - known, 0), 31)
        sees = (where < known)[None, :] | (((bits[:, None] >> of_tree[None, :]) & 1) == 1)
        score = tl.where(sees & real[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        anchor = tl.where(higher == float("-inf"), 0.0, higher)  # a tile of which a row sees nothing
        share = tl.exp(score - anchor[:, None])
        fade = tl.exp(top - anchor)
        weight = weight * fade + tl.sum(share, 1)
        value = tl.load(
            values + kv * value_head + line[:, None] * value_row + d[None, :], mask=real[:, None], other=0.0
        )
        total = total * fade[:, None] + tl.dot(share.to(query.dtype), value.to(query.dtype), input_precision=how)
        top = higher
    to = (part * rows + row) * heads + head
    tl.store(sums + to[:, None] * size + d[None, :], total, mask=here[:, None])
    tl.store(marks + to, top, mask=here)
    tl.store(marks + tl.num_programs(1) * rows * heads + to, weight, mask=here)


@triton.jit
def _join(sums, marks, out, count, cut: tl.constexpr, size: tl.constexpr):
    which = tl.program_id(0)
    d, part = tl.arange(0, size), tl.arange(0, cut)
    top = tl.load(marks + part * count + which)
    share = tl.exp(top - tl.max(top, 0))
    weight = tl.sum(share * tl.load(marks + (cut + part) * count + which), 0)
    total = tl.load(sums + (part[:, None] * count + which).to(tl.int64) * size + d[None, :])
    mixed = tl.sum(total * share[:, None], 0) / weight
    tl.store(out + which.to(tl.int64) * size + d, mixed.to(out.dtype.element_ty))
