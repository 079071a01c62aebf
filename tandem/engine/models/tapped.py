"""A decoder whose layers are listened to, for a drafter that reads their hidden states (ENG-054).

Its hidden states are those of the decoder with what was tapped behind them, (rows, hidden + taps x hidden), so they
come to a drafter by the ways that there are, also those of a verified path; the head reads the first part alone. A
decoder that nobody taps is not wrapped, and has no more to do than see that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.models.model import Drafts, JointModel, SeeingModel, Sight
from tandem.engine.models.state import State

__all__ = ["Tapped", "TappedModel", "Taps"]


@dataclass(frozen=True, slots=True)
class Taps:
    """What one pass leaves of some layers, in the order of `layers`, which rises."""

    layers: tuple[int, ...]
    taken: list[Tensor] = field(default_factory=list)

    def after(self, layer: int, x: Tensor) -> None:
        """The residual stream (rows, hidden) behind a layer, which goes on to write over it."""
        if layer in self.layers:
            self.taken.append(x.clone())


@runtime_checkable
class TappedModel(JointModel, Protocol):
    """A decoder that can be listened to."""

    taps: Taps | None
    """Told of every layer of every pass, where it is set."""

    def embed(self, ids: Tensor) -> Tensor:
        """(rows) to (rows, hidden) in fp32."""


class Tapped:
    """A `JointModel`, and a `SeeingModel` where the decoder is one."""

    def __init__(self, inner: TappedModel, layers: Sequence[int]) -> None:
        self.inner = inner
        self._taps = inner.taps = Taps(tuple(layers))

    @property
    def config(self) -> ModelConfig:
        return self.inner.config

    @property
    def anchor_grid(self) -> int:
        return self.inner.anchor_grid

    @property
    def nbytes(self) -> Mapping[str, int]:
        return self.inner.nbytes

    @property
    def formats(self) -> Mapping[str, int]:
        return self.inner.formats

    def new_state(self, max_len: int) -> State:
        return self.inner.new_state(max_len)

    def forward(self, ids: Tensor, start: int, state: State) -> Tensor:
        self._taps.taken.clear()
        return self._widened(self.inner.forward(ids, start, state))

    def forward_seen(self, ids: Tensor, start: int, state: State, sight: Sight) -> Tensor:
        if not isinstance(self.inner, SeeingModel):
            raise TypeError(f"{type(self.inner).__name__} reads no images")
        self._taps.taken.clear()
        return self._widened(self.inner.forward_seen(ids, start, state, sight))

    def verify(self, ids: Tensor, parents: Tensor, start: int, state: State) -> Tensor:
        return self.verify_joint([Drafts(ids, parents, start, state)])

    def verify_joint(self, trees: Sequence[Drafts]) -> Tensor:
        self._taps.taken.clear()
        return self._widened(self.inner.verify_joint(trees))

    def logits(self, hidden: Tensor) -> Tensor:
        return self.inner.logits(hidden[:, : self.config.hidden_size])

    def _widened(self, hidden: Tensor) -> Tensor:
        return torch.cat((hidden, *self._taps.taken), dim=1)
