"""The gated delta rule (Gated DeltaNet, arXiv:2412.06464): a row, a chunk, a verify and its commit
(ENG-007, 057, 058).

Per value head, with a matrix S (Dk, Dv) in fp32 as its state, a row does

    S ← exp(g) S;  u = β (v - Sᵀk);  S ← S + k ⊗ u;  out = Sᵀq

What is given and what is done here, for every form alike:

- `q` and `k` come as the convolution leaves them. They are made unit vectors here (x / sqrt(Σx² + 1e-6)), and q is then
  divided by sqrt(Dk); both in fp32. They have H heads, or a divisor of H: value head h then reads head h / (H / Hk).
- `g` is in log space and at most 0, `beta` in 0 … 1; `pointwise.delta_gates` makes both. Everything is taken to fp32.
- Outputs are rounded to the type of `v`. A state that is given is never written; the new one shares no memory with it.

The chunked form follows "Parallelizing Linear Transformers with the Delta Rule" (arXiv:2406.06484): within a chunk the
u of all rows solve one unit triangular system. Decays between two rows are sums of just the gates between them (as the
segment sums of Mamba-2, arXiv:2405.21060), not differences of running sums, which lose digits where a gate is large.
Every chunk is computed by calls of its own and padded to 64 rows, so the bits of a row depend on the rows before it and
on where chunks begin, and not on how many rows follow: a prefill that is cut at a multiple of 64 gives the bits of one
that is not. (What torch leaves open: on a CPU its products are those of one BLAS call of a fixed shape, which gives the
same bits each time with the same number of threads.)

Shapes: T or N rows, H value heads, Hk key heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.kernels.trees import climb, seen

__all__ = ["CHUNK", "DeltaRecords", "delta_chunk", "delta_commit", "delta_step", "delta_verify"]

CHUNK = 64
"""Rows that are solved together."""
EPS = 1e-6
"""What is added to the sum of squares of a query or key."""


@dataclass(frozen=True, slots=True)
class DeltaRecords:
    """What a verify keeps of its N rows, so that a path of them can be committed without any weight."""

    keys: Tensor  # (N, Hk, Dk) fp32, unit vectors
    values: Tensor  # (N, H, Dv) fp32: the u of each row on its own path
    gates: Tensor  # (N, H) fp32: each row's own g


def delta_step(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, new: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One row: q, k (Hk, Dk), v (H, Dv), g, beta (H), state (H, Dk, Dv) to (out (H, Dv), new state).

    The new state lies in `new` where that is given, which may be `state` itself. The old one is read once for key and
    query together: Sᵀq after the row is exp(g) S₀ᵀq + (k · q) u.
    """
    q, k = _unit(q, k, v.shape[0])
    decay = g.float().exp()[:, None]
    old = torch.bmm(torch.stack((k, q), 1), state) * decay[:, None]  # (H, 2, Dv): Sᵀk and Sᵀq after the decay
    u = beta.float()[:, None] * (v.float() - old[:, 0])
    out = old[:, 1] + (k * q).sum(-1, keepdim=True) * u
    after = torch.addcmul(state * decay[:, None], k[:, :, None], u[:, None])
    return out.to(v.dtype), after if new is None else new.copy_(after)


def delta_chunk(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """T rows: q, k (T, Hk, Dk), v (T, H, Dv), g, beta (T, H), state (H, Dk, Dv) to (out (T, H, Dv), new state)."""
    rows, heads = v.shape[:2]
    q, k = _unit(q, k, heads)
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=v.device).tril_()
    outs, state = [], state.clone()
    for start in range(0, rows, CHUNK):
        queries, keys, values, gate, rate = (_chunk(each, start) for each in (q, k, v, g[..., None], beta[..., None]))
        out, state = _solve_chunk(queries, keys, values, gate, rate, state, lower)
        outs.append(out[:, : rows - start].transpose(0, 1).to(v.dtype))
    return (torch.cat(outs) if outs else torch.empty_like(v)), state


def delta_verify(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, parents: Tensor
) -> tuple[Tensor, DeltaRecords]:
    """N rows of a tree behind `state`, which stands: each row's output is that of a plain run down its path.

    Shapes as in `delta_chunk`; `parents` (N), see `trees`. The path's gates take the place of a chunk's running ones.
    """
    heads = v.shape[1]
    queries, keys = _unit(q, k, heads)
    queries, keys, values = (each.transpose(0, 1) for each in (queries, keys, v.float()))  # (H, N, D)
    gate, rate = g.float().t(), beta.float().t()[..., None]  # (H, N), (H, N, 1)
    sees = seen(parents)
    total, decay = _down_paths(gate, parents, sees)
    out, u = _solve(queries, keys, values, total, decay, rate, state)
    records = DeltaRecords(_norm(k), u.transpose(0, 1).contiguous(), g.float())
    return out.transpose(0, 1).to(v.dtype), records


def delta_commit(state: Tensor, records: DeltaRecords, path: Tensor) -> Tensor:
    """The state after the rows `path` of a verify: exp(g_last) S₀ + Σ exp(g_last - g_t) k_t ⊗ u_t.

    g runs down the path; its differences are taken as sums of the gates after t. An empty path gives a copy.
    """
    rows = path[path >= 0]
    if rows.shape[0] == 0:
        return state.clone()
    gate = records.gates[rows]  # (n, H)
    after = gate.flip(0).cumsum(0).flip(0)  # g_last - g_t + own
    left = torch.cat((after[1:], torch.zeros_like(after[:1]))).exp()
    keys = _heads(records.keys[rows], state.shape[0]) * left[..., None]  # (n, H, Dk)
    return torch.baddbmm(
        state * after[0].exp()[:, None, None], keys.permute(1, 2, 0), records.values[rows].transpose(0, 1)
    )


def _norm(x: Tensor) -> Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + EPS)


def _heads(x: Tensor, heads: int) -> Tensor:
    """(…, Hk, D) as (…, H, D)."""
    return x if x.shape[-2] == heads else x.repeat_interleave(heads // x.shape[-2], dim=-2)


def _unit(q: Tensor, k: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    return _heads(_norm(q) * q.shape[-1] ** -0.5, heads), _heads(_norm(k), heads)


def _chunk(x: Tensor, start: int) -> Tensor:
    """Rows from `start` on of (T, H, D) as (H, CHUNK, D) in fp32, zeros past the end."""
    part = x[start : start + CHUNK].float().transpose(0, 1)
    return functional.pad(part, (0, 0, 0, CHUNK - part.shape[1])).contiguous()


def _solve_chunk(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, lower: Tensor
) -> tuple[Tensor, Tensor]:
    """A chunk of 64: q, k, v (H, 64, D), g, beta (H, 64, 1); a row of zeros changes nothing."""
    between = g.expand(-1, -1, CHUNK).tril(-1).cumsum(1)  # [i, j]: the gates after j up to i
    decay = between.exp() * lower
    total = g[..., 0].cumsum(1)
    out, u = _solve(q, k, v, total, decay, beta, state)
    left = decay[:, -1]  # (H, 64): what the end keeps of each row
    # A product and a sum: torch's `baddbmm` takes longer for a transposed operand on a CPU.
    new = torch.bmm((k * left[..., None]).transpose(1, 2), u).add_(state * total[:, -1].exp()[:, None, None])
    return out, new


def _solve(
    q: Tensor, k: Tensor, v: Tensor, total: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs and u of rows that see each other by `decay`: (H, N, Dv) twice.

    `total` (H, N): the gates from the state down to each row; `decay` (H, N, N): exp of those between two rows, 0 where
    the one does not see the other. u solves (I + β (k kᵀ ∘ decay) below the diagonal) u = β (v - exp(total) k S₀).
    """
    start = total.exp()[..., None]
    products = torch.bmm(k, k.transpose(1, 2))
    right = beta * (v - start * torch.bmm(k, state))
    u = torch.linalg.solve_triangular(beta * products * decay, right, upper=False, unitriangular=True)
    out = start * torch.bmm(q, state) + torch.bmm(torch.bmm(q, k.transpose(1, 2)) * decay, u)
    return out, u


def _down_paths(gate: Tensor, parents: Tensor, sees: Tensor) -> tuple[Tensor, Tensor]:
    """From each row's gate (H, N): the sums from the root (H, N), and exp of those between rows (H, N, N), 0 unseen.

    Row i climbs: at each ancestor it notes what it has summed so far, then adds that ancestor's gate.
    """
    rows = gate.shape[1]
    columns = torch.arange(rows, device=gate.device)
    total, between = gate.clone(), gate.new_zeros(gate.shape[0], rows, rows)
    for way in climb(parents, rows - 1):
        here = way >= 0
        between += torch.where(way[:, None] == columns, total[..., None], 0.0)
        total = total + torch.where(here, gate[:, way.clamp(min=0)], 0.0)
    return total, between.exp() * sees
