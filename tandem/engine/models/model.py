"""What a model package gives the engine: layers, and nothing about requests (ENG-167)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.weights import Weights
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.kv import KVCache

__all__ = ["Load", "Model", "Progress"]

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (tensors read, tensors in all) while a model loads."""


class Model(Protocol):
    """A decoder whose weights are loaded."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def anchor_grid(self) -> int:
        """Absolute multiples at which its prefills are cut where nothing else is set (ENG-035)."""

    @property
    def nbytes(self) -> Mapping[str, int]:
        """Bytes of the loaded weights by group."""

    @property
    def formats(self) -> Mapping[str, int]:
        """Matrices by their format in memory."""

    def new_cache(self, max_len: int) -> KVCache:
        """The buffers of one sequence of at most `max_len` rows."""

    def forward(self, ids: Tensor, start: int, cache: KVCache) -> Tensor:
        """Read `ids` (rows, int64) at positions start, start + 1, …: hidden states (rows, hidden) after the last norm.

        Rows below `start` of the cache are read, those from `start` on are written.
        """

    def logits(self, hidden: Tensor) -> Tensor:
        """(rows, hidden) to logits (rows, vocab) in fp32, for any number of rows (ENG-011)."""


Load: TypeAlias = Callable[[ModelConfig, Weights, Progress, CpuWeights], Model]
"""How a model package is entered. `CheckpointError` names what is missing or wrong."""
