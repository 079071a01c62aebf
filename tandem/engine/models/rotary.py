"""Rotary position embeddings over the two halves of a head (RoFormer, arXiv:2104.09864), with the context scalings
that Llama checkpoints declare under `rope_scaling` in their config.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tandem.engine.errors import CheckpointError

__all__ = ["RotaryTable", "inverse_frequencies", "rotate", "table"]

RotaryTable = tuple[Tensor, Tensor]
"""Cosines and sines, each (positions, head_dim / 2) in fp32."""


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


def table(frequencies: Tensor, positions: int) -> RotaryTable:
    """The rotation of every position below `positions`."""
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn (heads, rows, head_dim) by (rows, head_dim / 2); element i pairs with element i + head_dim / 2."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


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
