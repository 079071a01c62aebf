"""The gated delta rule in Triton: see `tandem.engine.kernels.delta` for the rule and for what is given.

One program has one head and `bv` of its value columns, since columns of a state never meet. A step and a commit read
and write the state once and are bound by that; a commit runs the sum of ENG-058 by Horner's rule, one row after the
other. A verify takes all products of its rows at once and solves for u row by row in registers. A chunk takes two
kernels: the first inverts every chunk's triangular system, all chunks at once; the second walks the chunks with the
state in registers.
"""

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from tandem.engine.kernels.delta import CHUNK, DeltaRecords
from tandem.engine.kernels.triton.common import down_paths, inner, power, precision, unit

__all__ = ["delta_chunk", "delta_commit", "delta_step", "delta_verify", "delta_verify_chain"]


def delta_step(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, new: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The twin's; `new` may be given, and may be `state` itself, which is then written."""
    heads, keys, columns = state.shape
    q, k, v = (each.contiguous() for each in (q, k, v))
    out = torch.empty_like(v)
    new = torch.empty_like(state) if new is None else new
    bv = _columns(columns, 32)
    grid = (heads, columns // bv)
    _step[grid](
        q, k, v, g.contiguous(), beta.contiguous(), state, out, new, keys**-0.5, heads // q.shape[0], keys, columns, bv
    )  # fmt: skip
    return out, new


def delta_verify(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, parents: Tensor
) -> tuple[Tensor, DeltaRecords]:
    """The twin's."""
    return _launch_verify(q, k, v, g, beta, state, parents.contiguous(), chained=False)


def delta_verify_chain(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, parents: Tensor | None = None
) -> tuple[Tensor, DeltaRecords]:
    """`delta_verify` of a chain: `parents` is not read."""
    return _launch_verify(q, k, v, g, beta, state, q, chained=True)


def delta_commit(state: Tensor, records: DeltaRecords, path: Tensor, new: Tensor | None = None) -> Tensor:
    """The twin's; `new` may be given, and may be `state` itself, which is then written."""
    heads, keys, columns = state.shape
    new = torch.empty_like(state) if new is None else new
    bv = _columns(columns, 32)
    _commit[(heads, columns // bv)](
        state, new, records.keys, records.values, records.gates, path.contiguous(), path.shape[0],
        heads // records.keys.shape[1], heads, keys, columns, bv,
    )  # fmt: skip
    return new


def delta_chunk(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The twin's."""
    rows, (heads, keys, columns) = v.shape[0], state.shape
    q, k, v, g, beta = inner(q, 2), inner(k, 2), inner(v, 2), inner(g, 1), inner(beta, 1)
    out, new = torch.empty(v.shape, dtype=v.dtype, device=v.device), torch.empty_like(state)
    if rows == 0:
        return out, new.copy_(state)
    chunks = triton.cdiv(rows, CHUNK)
    room = partial(torch.empty, dtype=torch.float32, device=v.device)
    solved_keys = room((chunks, heads, CHUNK, keys))
    solved_values = room((chunks, heads, CHUNK, columns))
    scores = room((chunks, heads, CHUNK, CHUNK))
    ratio, scale, how = heads // q.shape[1], keys**-0.5, precision(v)
    _prepare[(chunks, heads)](
        q, k, v, g, beta, solved_keys, solved_values, scores,
        q.stride(0), k.stride(0), v.stride(0), g.stride(0), beta.stride(0), rows,
        scale, ratio, heads, keys, columns, min(keys, 32), CHUNK, how, num_warps=8,
    )  # fmt: skip
    bv = _columns(columns, 32)
    _walk[(heads, columns // bv)](
        q, k, g, solved_keys, solved_values, scores, state, out, new,
        q.stride(0), k.stride(0), g.stride(0), rows,
        scale, ratio, heads, keys, columns, bv, CHUNK, how, num_warps=4, num_stages=1,
    )  # fmt: skip
    return out, new


def _columns(columns: int, most: int) -> int:
    """Value columns of one program: at least 16, which is the least that a product takes."""
    for bv in (most, 16):
        if columns % bv == 0:
            return bv
    raise ValueError(f"value heads of {columns} are no multiple of 16")


def _launch_verify(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, parents: Tensor, *, chained: bool
) -> tuple[Tensor, DeltaRecords]:
    rows, (heads, keys, columns) = v.shape[0], state.shape
    q, k, v, g, beta = inner(q, 2), inner(k, 2), inner(v, 2), inner(g, 1), inner(beta, 1)
    out = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    room = partial(torch.empty, dtype=torch.float32, device=v.device)
    records = DeltaRecords(room(k.shape), room((rows, heads, columns)), room((rows, heads)))
    bv = _columns(columns, 32)
    _verify[(heads, columns // bv)](
        q, k, v, g, beta, state, parents, out, records.keys, records.values, records.gates,
        q.stride(0), k.stride(0), v.stride(0), g.stride(0), beta.stride(0), rows,
        keys**-0.5, heads // q.shape[1], heads, keys, columns, bv, min(keys, 32), power(rows, 16), chained,
        precision(v), num_warps=8 if rows > 16 else 4,
    )  # fmt: skip
    return out, records


@triton.jit
def _step(
    q, k, v, g, beta, state, out, new, scale,
    ratio: tl.constexpr, dk: tl.constexpr, dv: tl.constexpr, bv: tl.constexpr,
):  # fmt: skip
    h = tl.program_id(0)
    i, j = tl.arange(0, dk), tl.program_id(1) * bv + tl.arange(0, bv)
    where = h * dk * dv + i[:, None] * dv + j[None, :]
    query = tl.load(q + (h // ratio) * dk + i).to(tl.float32)
    key = tl.load(k + (h // ratio) * dk + i).to(tl.float32)
    query = query * tl.rsqrt(tl.sum(query * query, 0) + 1e-6) * scale
    key = key * tl.rsqrt(tl.sum(key * key, 0) + 1e-6)
    matrix = tl.load(state + where) * tl.exp(tl.load(g + h).to(tl.float32))
    value = tl.load(v + h * dv + j).to(tl.float32)
    u = (value - tl.sum(matrix * key[:, None], 0)) * tl.load(beta + h).to(tl.float32)
    matrix += key[:, None] * u[None, :]
    tl.store(new + where, matrix)
    tl.store(out + h * dv + j, tl.sum(matrix * query[:, None], 0).to(out.dtype.element_ty))


@triton.jit
def _verify(
    q, k, v, g, beta, state, parents, out, keys, values, gates,
    q_row, k_row, v_row, g_row, beta_row, rows, scale,
    ratio: tl.constexpr, heads: tl.constexpr, dk: tl.constexpr, dv: tl.constexpr, bv: tl.constexpr, bd: tl.constexpr,
    n: tl.constexpr, chained: tl.constexpr, how: tl.constexpr,
):  # fmt: skip
    h, block = tl.program_id(0), tl.program_id(1)
    r, j = tl.arange(0, n), block * bv + tl.arange(0, bv)
    there = r < rows
    queries, keys_of = q + (h // ratio) * dk + r[:, None] * q_row, k + (h // ratio) * dk + r[:, None] * k_row
    of_query, of_key = tl.zeros((n,), tl.float32), tl.zeros((n,), tl.float32)
    both, pairs = tl.zeros((n, n), tl.float32), tl.zeros((n, n), tl.float32)
    asked, known = tl.zeros((n, bv), tl.float32), tl.zeros((n, bv), tl.float32)
    for begin in range(0, dk, bd):
        i = begin + tl.arange(0, bd)
        query = tl.load(queries + i[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        key = tl.load(keys_of + i[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        matrix = tl.load(state + h * dk * dv + i[:, None] * dv + j[None, :])
        of_query += tl.sum(query * query, 1)
        of_key += tl.sum(key * key, 1)
        both = tl.dot(query, tl.trans(key), both, input_precision=how)
        pairs = tl.dot(key, tl.trans(key), pairs, input_precision=how)
        asked = tl.dot(query, matrix, asked, input_precision=how)
        known = tl.dot(key, matrix, known, input_precision=how)
    # The products become those of unit vectors.
    of_query, of_key = tl.rsqrt(of_query + 1e-6) * scale, tl.rsqrt(of_key + 1e-6)
    total, between, sees = down_paths(parents, g + h, g_row, rows, n, chained)
    decay = tl.where(sees == 1, tl.exp(between), 0.0)
    start = tl.exp(total)
    rate = tl.load(beta + r * beta_row + h, mask=there, other=0.0).to(tl.float32)
    value = tl.load(v + r[:, None] * v_row + h * dv + j[None, :], mask=there[:, None], other=0.0).to(tl.float32)
    u = rate[:, None] * (value - (start * of_key)[:, None] * known)
    below = tl.where(r[:, None] > r[None, :], pairs * decay, 0.0) * (rate * of_key)[:, None] * of_key[None, :]
    for row in range(1, rows):
        mine = r[:, None] == row
        of_row = tl.sum(tl.where(mine, below, 0.0), 0)
        u = tl.where(mine, u - tl.sum(of_row[:, None] * u, 0)[None, :], u)
    scores = both * decay * of_query[:, None] * of_key[None, :]
    result = (start * of_query)[:, None] * asked + tl.dot(scores, u, input_precision=how)
    to = r[:, None] * heads * dv + h * dv + j[None, :]
    tl.store(out + to, result.to(out.dtype.element_ty), mask=there[:, None])
    tl.store(values + to, u, mask=there[:, None])
    if block == 0:
        tl.store(gates + r * heads + h, tl.load(g + r * g_row + h, mask=there, other=0.0).to(tl.float32), mask=there)
        if h % ratio == 0:
            for begin in range(0, dk, bd):
                i = begin + tl.arange(0, bd)
                key = tl.load(keys_of + i[None, :], mask=there[:, None], other=0.0).to(tl.float32)
                line = keys + (r[:, None] * (heads // ratio) + h // ratio) * dk
                tl.store(line + i[None, :], key * of_key[:, None], mask=there[:, None])


@triton.jit
def _commit(
    state, new, keys, values, gates, path, length,
    ratio: tl.constexpr, heads: tl.constexpr, dk: tl.constexpr, dv: tl.constexpr, bv: tl.constexpr,
):  # fmt: skip
    h = tl.program_id(0)
    i, j = tl.arange(0, dk), tl.program_id(1) * bv + tl.arange(0, bv)
    where = h * dk * dv + i[:, None] * dv + j[None, :]
    matrix = tl.load(state + where)
    for step in range(length):
        row = tl.load(path + step)
        if row >= 0:
            key = tl.load(keys + (row * (heads // ratio) + h // ratio) * dk + i)
            u = tl.load(values + (row * heads + h) * dv + j)
            matrix = matrix * tl.exp(tl.load(gates + row * heads + h)) + key[:, None] * u[None, :]
    tl.store(new + where, matrix)


@triton.jit
def _prepare(
    q, k, v, g, beta, solved_keys, solved_values, scores,
    q_row, k_row, v_row, g_row, beta_row, rows, scale,
    ratio: tl.constexpr, heads: tl.constexpr, dk: tl.constexpr, dv: tl.constexpr, bd: tl.constexpr,
    n: tl.constexpr, how: tl.constexpr,
):  # fmt: skip
    """Of one chunk: (I + β (k kᵀ ∘ decay))⁻¹ times β v and times β exp(total) k, and (q kᵀ) ∘ decay."""
    chunk, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    r = tl.arange(0, n)
    t = chunk * n + r
    there = t < rows
    queries, keys = q + (h // ratio) * dk + t[:, None] * q_row, k + (h // ratio) * dk + t[:, None] * k_row
    of_query, of_key = tl.zeros((n,), tl.float32), tl.zeros((n,), tl.float32)
    both, pairs = tl.zeros((n, n), tl.float32), tl.zeros((n, n), tl.float32)
    for begin in range(0, dk, bd):
        i = begin + tl.arange(0, bd)
        query = tl.load(queries + i[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        key = tl.load(keys + i[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        of_query += tl.sum(query * query, 1)
        of_key += tl.sum(key * key, 1)
        both = tl.dot(query, tl.trans(key), both, input_precision=how)
        pairs = tl.dot(key, tl.trans(key), pairs, input_precision=how)
    # The products become those of unit vectors.
    of_query, of_key = tl.rsqrt(of_query + 1e-6) * scale, tl.rsqrt(of_key + 1e-6)
    gate = tl.load(g + t * g_row + h, mask=there, other=0.0).to(tl.float32)
    rate = tl.load(beta + t * beta_row + h, mask=there, other=0.0).to(tl.float32)
    between = tl.cumsum(tl.where(r[:, None] > r[None, :], gate[:, None], 0.0), 0)
    decay = tl.where(r[:, None] >= r[None, :], tl.exp(between), 0.0)
    to = chunk * heads + h
    tl.store(scores + (to * n + r[:, None]) * n + r[None, :], both * decay * of_query[:, None] * of_key[None, :])
    below = tl.where(r[:, None] > r[None, :], pairs * decay, 0.0) * (rate * of_key)[:, None] * of_key[None, :]
    inverse = -below
    for row in range(1, n):
        mine = r[:, None] == row
        of_row = tl.sum(tl.where(mine, inverse, 0.0), 0)
        inverse = tl.where(mine, (of_row + tl.sum(of_row[:, None] * inverse, 0))[None, :], inverse)
    inverse += (r[:, None] == r[None, :]).to(tl.float32)
    from_start = rate * tl.exp(tl.cumsum(gate, 0)) * of_key
    for begin in range(0, dk, bd):
        i = begin + tl.arange(0, bd)
        key = tl.load(keys + i[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        solved = tl.dot(inverse, key * from_start[:, None], input_precision=how)
        tl.store(solved_keys + (to * n + r[:, None]) * dk + i[None, :], solved)
    for begin in range(0, dv, 16):
        j = begin + tl.arange(0, 16)
        value = tl.load(v + t[:, None] * v_row + h * dv + j[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        solved = tl.dot(inverse, value * rate[:, None], input_precision=how)
        tl.store(solved_values + (to * n + r[:, None]) * dv + j[None, :], solved)


@triton.jit
def _walk(
    q, k, g, solved_keys, solved_values, scores, state, out, new,
    q_row, k_row, g_row, rows, scale,
    ratio: tl.constexpr, heads: tl.constexpr, dk: tl.constexpr, dv: tl.constexpr, bv: tl.constexpr, n: tl.constexpr,
    how: tl.constexpr,
):  # fmt: skip
    """From chunk to chunk: u = what was solved less what the state already says; outputs; the state after it."""
    h = tl.program_id(0)
    r, i, j = tl.arange(0, n), tl.arange(0, dk), tl.program_id(1) * bv + tl.arange(0, bv)
    where = h * dk * dv + i[:, None] * dv + j[None, :]
    at = (h // ratio) * dk + i[None, :]
    matrix = tl.load(state + where)
    for chunk in range(tl.cdiv(rows, n)):
        t = (chunk * n + r).to(tl.int64)
        there = t < rows
        gate = tl.load(g + t * g_row + h, mask=there, other=0.0).to(tl.float32)
        total = tl.cumsum(gate, 0)
        followed = (r + 1 < n) & (t + 1 < rows)
        following = tl.load(g + (t + 1) * g_row + h, mask=followed, other=0.0).to(tl.float32)
        after = tl.cumsum(following, 0, reverse=True)  # what the end keeps of each row
        to = (chunk * heads + h) * n + r[:, None].to(tl.int64)
        u = tl.load(solved_values + to * dv + j[None, :])
        u -= tl.dot(tl.load(solved_keys + to * dk + i[None, :]), matrix, input_precision=how)
        query = unit(tl.load(q + t[:, None] * q_row + at, mask=there[:, None], other=0.0).to(tl.float32)) * scale
        result = tl.exp(total)[:, None] * tl.dot(query, matrix, input_precision=how)
        result += tl.dot(tl.load(scores + to * n + r[None, :]), u, input_precision=how)
        key = unit(tl.load(k + t[:, None] * k_row + at, mask=there[:, None], other=0.0).to(tl.float32))
        matrix *= tl.exp(tl.sum(gate, 0))
        matrix += tl.dot(tl.trans(key * tl.exp(after)[:, None]), u, input_precision=how)
        tl.store(
            out + t[:, None] * heads * dv + h * dv + j[None, :], result.to(out.dtype.element_ty), mask=there[:, None]
        )
    tl.store(new + where, matrix)
