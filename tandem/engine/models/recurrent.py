"""The part of a sequence that is not rows: what its recurrent layers remember of everything read so far.

A recurrence adds each token to a matrix of fixed size, and nothing can be taken out of it again. So what is remembered
is a value: a forward makes a new one and leaves the old one as it was, no tensor of it is ever written. To keep a point
of a sequence is to hold its value, to go back is to put it in place, and a forward that fails half-way has changed
nothing. A model without such layers has the value of no layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.kernels.conv import conv_commit
from tandem.engine.kernels.delta import DeltaRecords, delta_commit

__all__ = ["NO_LAYERS", "LayerMemory", "LayerRecords", "Recurrent"]


class LayerMemory(NamedTuple):
    """What one Gated DeltaNet layer remembers (ENG-007)."""

    matrix: Tensor  # (value heads, key head, value head) in fp32
    tail: Tensor  # (W - 1, channels) in fp32: the newest inputs of its convolution, the newest last

    def after(self, records: LayerRecords, path: Tensor) -> LayerMemory:
        """What it remembers once the rows `path` of a verify, root first, belong to the sequence (ENG-058)."""
        return LayerMemory(delta_commit(self.matrix, records.delta, path), conv_commit(self.tail, records.inputs, path))


class LayerRecords(NamedTuple):
    """What the N rows of a verify would add to one layer's memory, whichever of them are taken."""

    inputs: Tensor  # (N, channels): of the convolution
    delta: DeltaRecords


@dataclass(frozen=True, slots=True)
class Recurrent:
    """The memory of all recurrent layers, in their order, after the first `row` rows.

    `offset` goes with it wherever it is kept, for models whose positions are not the numbers of rows: an image takes
    fewer positions than rows, so the text behind it stands at its row plus `offset`, negative then (ENG-099).
    """

    row: int = 0
    layers: tuple[LayerMemory, ...] = field(default=(), repr=False)
    offset: int = 0

    @staticmethod
    def empty(config: ModelConfig) -> Recurrent:
        """Nothing read yet."""
        matrix, tail = _shapes(config)
        memory = LayerMemory(torch.zeros(matrix), torch.zeros(tail))
        return Recurrent(0, (memory,) * config.layers_of("linear_attention"))

    @staticmethod
    def bytes_for(config: ModelConfig) -> int:
        """What one such value takes."""
        numbers = sum(torch.Size(shape).numel() for shape in _shapes(config))
        return config.layers_of("linear_attention") * numbers * torch.float32.itemsize

    def after(self, records: Sequence[LayerRecords], path: Sequence[int]) -> Recurrent:
        """The memory once the rows `path` of a verify, root first, belong to the sequence; no weight is read."""
        rows = torch.tensor(path, dtype=torch.int64)
        layers = (layer.after(each, rows) for layer, each in zip(self.layers, records, strict=True))
        return Recurrent(self.row + len(path), tuple(layers), self.offset)

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for layer in self.layers for each in layer)


NO_LAYERS: Final = Recurrent()
"""What a model without recurrent layers remembers beside its rows."""


def _shapes(config: ModelConfig) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Of one layer's matrix and tail."""
    heads, keys, values = config.linear_num_value_heads, config.linear_key_head_dim, config.linear_value_head_dim
    channels = 2 * config.linear_num_key_heads * keys + heads * values
    return (heads, keys, values), (max(config.linear_conv_kernel_dim - 1, 0), channels)
