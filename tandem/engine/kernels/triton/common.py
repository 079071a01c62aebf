"""What several kernels share."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["down_paths", "inner", "power", "precision", "sigmoid", "unit"]


def power(count: int, least: int = 1) -> int:
    """The next power of two: the sizes that a kernel can hold."""
    return max(least, 1 << (count - 1).bit_length())


def precision(tensor: Tensor) -> str:
    """How products of fp32 are taken: on tensor cores in three passes of TF32, which keeps about 21 bits of 24."""
    return "tf32x3" if tensor.is_cuda else "ieee"


def inner(tensor: Tensor, dims: int) -> Tensor:
    """The tensor, copied unless its last `dims` dimensions lie without gaps; its rows may be apart."""
    expected = 1
    for size, stride in zip(reversed(tensor.shape[-dims:]), reversed(tensor.stride()[-dims:]), strict=True):
        if size != 1 and stride != expected:
            return tensor.contiguous()
        expected *= size
    return tensor


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def unit(x):
    """Rows (R, D) in fp32 as unit vectors."""
    return x * tl.rsqrt(tl.sum(x * x, 1) + 1e-6)[:, None]


@triton.jit
def down_paths(parents, gate, stride, rows, n: tl.constexpr, chained: tl.constexpr):
    """Every row of a tree climbs to its root: see `_down_paths` of the twin.

    (n): the gates from the root down to each row; (n, n): the gates between two rows; (n, n): 1 where a row sees the
    other. With `chained` the parent of a row is the row before it and `parents` is not read.
    """
    r = tl.arange(0, n)
    there = r < rows
    at = r
    total = tl.load(gate + r * stride, mask=there, other=0.0).to(tl.float32)
    between = tl.zeros((n, n), tl.float32)
    sees = (r[:, None] == r[None, :]).to(tl.int32)
    for _ in range(rows - 1):
        if chained:  # noqa: SIM108 - decided when it is compiled
            at = at - 1
        else:
            at = tl.load(parents + at, mask=there & (at >= 0), other=-1).to(tl.int32)
        here = there & (at >= 0)
        hit = (at[:, None] == r[None, :]) & here[:, None]
        sees = tl.where(hit, 1, sees)
        between += tl.where(hit, total[:, None], 0.0)
        total += tl.load(gate + at * stride, mask=here, other=0.0).to(tl.float32)
    return total, between, sees
