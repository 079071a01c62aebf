"""Rotary position embeddings (RoFormer, arXiv:2104.09864) as products of complex numbers, with the context scalings
that Llama checkpoints declare under `rope_scaling` in their config.

A checkpoint pairs element i of a head with element i + head_dim / 2. `paired` lays the rows of a query or key
projection so that pairs stand side by side; queries and keys are reordered alike, so no score changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tandem.engine.errors import CheckpointError

__all__ = ["Turns", "inverse_frequencies", "paired", "rotate_"]

_BLOCK = 4096
"""Positions whose rotations are made together."""


def inverse_frequencies(head_dim: int, theta: float, scaling: Mapping[str, object]) -> Tensor:
    """Radians per position of each pair, (head_dim / 2) in fp32. `CheckpointError` names an unknown scaling."""
    plain = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    match kind := scaling.get("rope_type", scaling.get("type", "default")):
        case "default":
            return plain
        case "linear":
            return plain / _number(scaling, "factor")
        case "llama3":
            return _llama3(plain, scaling)
        case _:
            raise CheckpointError(f"rope_scaling of type {kind!r} is not supported; known are default, linear, llama3")


class Turns:
    """The rotation of every position, made when a position of its block is first asked for.

    A context of 262,144 positions of 32 pairs takes 64 MiB, and most windows and prompts are far shorter. Blocks always
    begin at the same positions, so how far the table has grown changes no bit of it.
    """

    def __init__(self, frequencies: Tensor) -> None:
        """`frequencies` (head_dim / 2): radians per position of each pair."""
        self._frequencies = frequencies
        self._table = self._made(0, 0)

    def upto(self, end: int) -> Tensor:
        """A table (positions, 1, head_dim / 2) in complex64 that holds at least the positions below `end`."""
        if (known := self._table.shape[0]) < end:
            starts = range(known, end, _BLOCK)
            self._table = torch.cat([self._table, *(self._made(at, at + _BLOCK) for at in starts)])
        return self._table

    def _made(self, start: int, end: int) -> Tensor:
        angles = torch.arange(start, end, dtype=torch.float32)[:, None] * self._frequencies
        return torch.complex(angles.cos(), angles.sin())[:, None]


def paired(tensor: Tensor, heads: int) -> Tensor:
    """Rows (heads head_dim, …) of a projection, or its bias, from halves to pairs."""
    return tensor.view(heads, 2, -1, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def rotate_(heads: Tensor, turns: Tensor) -> None:
    """Turn (rows, heads, head_dim) of fp32 in place, by (rows, 1, head_dim / 2)."""
    torch.view_as_complex(heads.view(*heads.shape[:-1], -1, 2)).mul_(turns)


def _llama3(plain: Tensor, scaling: Mapping[str, object]) -> Tensor:
    """Llama 3.1's scaling: long waves are slowed by `factor`, short ones kept, those between blended linearly."""
    factor, context = _number(scaling, "factor"), _number(scaling, "original_max_position_embeddings")
    low, high = _number(scaling, "low_freq_factor"), _number(scaling, "high_freq_factor")
    turns = context * plain / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - kept) * plain / factor + kept * plain


def _number(scaling: Mapping[str, object], key: str) -> float:
    value = scaling.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CheckpointError(f"rope_scaling needs a number as {key!r}")
    return float(value)
