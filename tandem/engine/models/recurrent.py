"""The part of a sequence that is not rows: what its recurrent layers remember of everything read so far.

A recurrence adds each token to a matrix of fixed size, and nothing can be taken out of it again. So what is remembered
is a value: a forward makes a new one and leaves the old one as it was, no tensor of it is ever written. To keep a point
of a sequence is to hold its value, to go back is to put it in place, and a forward that fails half-way has changed
nothing. A model without such layers has the value of no layers.

A captured graph is the one exception: it writes where it always writes. What lies there is `moved` first where somebody
still holds it (`places.py`), so the numbers of a value never change. Hold the value, not its tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.kernels.conv import conv_commit
from tandem.engine.kernels.delta import DeltaRecords, delta_commit
from tandem.engine.models.placement import CPU, Placement

__all__ = ["NO_LAYERS", "Commit", "LayerMemory", "LayerRecords", "Recurrent", "by_twins"]


class LayerMemory(NamedTuple):
    """What one Gated DeltaNet layer remembers (ENG-007)."""

    matrix: Tensor  # (value heads, key head, value head) in fp32
    tail: Tensor  # (W - 1, channels) as activations: the newest inputs of its convolution, the newest last

    def clone(self) -> LayerMemory:
        """The same in memory of its own."""
        return LayerMemory(self.matrix.clone(), self.tail.clone())


class LayerRecords(NamedTuple):
    """What the N rows of a verify would add to one layer's memory, whichever of them are taken."""

    inputs: Tensor  # (N, channels): of the convolution
    delta: DeltaRecords


Commit: TypeAlias = Callable[[LayerMemory, LayerRecords, Tensor], LayerMemory]
"""What a layer remembers once the rows (n, int64) of a verify, root first, belong to the sequence (ENG-058)."""


def by_twins(memory: LayerMemory, records: LayerRecords, path: Tensor) -> LayerMemory:
    """A `Commit` in plain torch."""
    return LayerMemory(delta_commit(memory.matrix, records.delta, path), conv_commit(memory.tail, records.inputs, path))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Recurrent:
    """The memory of all recurrent layers, in their order, after the first `row` rows.

    `offset` goes with it wherever it is kept, for models whose positions are not the numbers of rows: an image takes
    fewer positions than rows, so the text behind it stands at its row plus `offset`, negative then (ENG-099).
    """

    row: int = 0
    layers: tuple[LayerMemory, ...] = field(default=(), repr=False)
    offset: int = 0

    @staticmethod
    def empty(config: ModelConfig, placement: Placement = CPU) -> Recurrent:
        """Nothing read yet."""
        matrix, tail = _shapes(config)
        memory = LayerMemory(
            torch.zeros(matrix, device=placement.device),
            torch.zeros(tail, dtype=placement.dtype, device=placement.device),
        )
        return Recurrent(0, (memory,) * config.layers_of("linear_attention"))

    @staticmethod
    def bytes_for(config: ModelConfig, placement: Placement = CPU) -> int:
        """What one such value takes."""
        matrix, tail = (torch.Size(shape).numel() for shape in _shapes(config))
        each = matrix * torch.float32.itemsize + tail * placement.dtype.itemsize
        return config.layers_of("linear_attention") * each

    def after(self, records: Sequence[LayerRecords], path: Sequence[int], commit: Commit) -> Recurrent:
        """The memory once the rows `path` of a verify, root first, belong to the sequence; no weight is read."""
        rows = torch.tensor(path, dtype=torch.int64, device=self.layers[0].matrix.device)
        layers = (commit(layer, each, rows) for layer, each in zip(self.layers, records, strict=True))
        return Recurrent(self.row + len(path), tuple(layers), self.offset)

    def at(self, device: torch.device) -> Recurrent:
        """This value on `device`: itself where it lies there."""
        if all(layer.matrix.device == device for layer in self.layers):
            return self
        layers = tuple(LayerMemory(*(each.to(device) for each in layer)) for layer in self.layers)
        return Recurrent(self.row, layers, self.offset)

    def moved(self) -> None:
        """Lie in memory of its own from now on: the same numbers elsewhere, which is no change of a value."""
        object.__setattr__(self, "layers", tuple(layer.clone() for layer in self.layers))

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
