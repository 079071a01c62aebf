"""The operations as their definitions say, row by row in fp64: slow, and right by being plain."""

from __future__ import annotations

import torch
from torch import Tensor

from tandem.engine.kernels.delta import DeltaRecords
from tandem.engine.kernels.trees import lineage

__all__ = [
    "attention",
    "chunk",
    "commit",
    "conv",
    "conv_tree",
    "gated_norm",
    "linear",
    "norm",
    "rotate",
    "step",
    "verify",
]


def step(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    out, after, _, _ = _row(q, k, v, g, beta, state)
    return out, after


def chunk(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    outs = []
    for row in zip(q, k, v, g, beta, strict=True):
        out, state = step(*row, state)
        outs.append(out)
    return (torch.stack(outs) if outs else v), state


def verify(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, parents: Tensor
) -> tuple[Tensor, DeltaRecords]:
    """A plain run down the path of every row."""
    outs, keys, values = [], [], []
    for node in range(v.shape[0]):
        *above, row = lineage(parents, node)
        _, after = chunk(q[above], k[above], v[above], g[above], beta[above], state)
        out, _, key, u = _row(q[row], k[row], v[row], g[row], beta[row], after)
        outs.append(out)
        keys.append(key[:: v.shape[1] // k.shape[1]])
        values.append(u)
    return torch.stack(outs), DeltaRecords(torch.stack(keys), torch.stack(values), g)


def commit(state: Tensor, records: DeltaRecords, path: Tensor) -> Tensor:
    """exp(g_last) S0 + the sum of exp(g_last - g_t) k_t u_t, as ENG-058 has it."""
    rows = [row for row in path.tolist() if row >= 0]
    gates = records.gates[rows].cumsum(0)  # along the path
    if not rows:
        return state
    ratio = state.shape[0] // records.keys.shape[1]
    total = gates[-1].exp()[:, None, None] * state
    for at, row in enumerate(rows):
        left = (gates[-1] - gates[at]).exp()[:, None, None]
        keys = records.keys[row].repeat_interleave(ratio, 0)
        total = total + left * keys[:, :, None] * records.values[row][:, None]
    return total


def conv(x: Tensor, tail: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    outs = []
    for row in x:
        window = torch.cat((tail, row[None]))
        outs.append((window * weight.t()).sum(0))
        tail = window[1:]
    mixed = torch.stack(outs) if outs else x
    return mixed * mixed.sigmoid(), tail


def conv_tree(x: Tensor, tail: Tensor, weight: Tensor, parents: Tensor) -> Tensor:
    return torch.stack([conv(x[lineage(parents, node)], tail, weight)[0][-1] for node in range(x.shape[0])])


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def gated_norm(x: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    return norm(x, weight, eps) * gate * gate.sigmoid()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half, out = cos.shape[-1], x.clone()
    for pair in range(half):
        c, s = cos[:, None, pair], sin[:, None, pair]
        out[..., pair] = x[..., pair] * c - x[..., pair + half] * s
        out[..., pair + half] = x[..., pair + half] * c + x[..., pair] * s
    return out


def linear(x: Tensor, weight: Tensor) -> Tensor:
    return x.double() @ weight.double().t()


def attention(
    q: Tensor, keys: Tensor, values: Tensor, base: Tensor, parents: Tensor, limit: int | None = None
) -> Tensor:
    """Every head of every row by itself, over the rows that it sees, in their order."""
    start, out = int(base), torch.empty_like(q)
    group = q.shape[1] // keys.shape[0]
    for node in range(q.shape[0]):
        rows = [*range(start), *(start + row for row in lineage(parents, node))]
        for head in range(q.shape[1]):
            scores = keys[head // group, rows] @ q[node, head] / q.shape[-1] ** 0.5
            out[node, head] = scores.softmax(0) @ values[head // group, rows]
    return out


def _row(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    ratio = v.shape[0] // k.shape[0]
    q, k = (each / (each.square().sum(-1, keepdim=True) + 1e-6).sqrt() for each in (q, k))
    q, k = q.repeat_interleave(ratio, 0) / q.shape[-1] ** 0.5, k.repeat_interleave(ratio, 0)
    state = state * g.exp()[:, None, None]
    u = beta[:, None] * (v - torch.einsum("hkv,hk->hv", state, k))
    state = state + k[:, :, None] * u[:, None]
    return torch.einsum("hkv,hk->hv", state, q), state, k, u
