"""What a model package gives the engine: layers, and nothing about requests (ENG-167)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.weights import Weights
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.state import State

__all__ = ["Load", "Model", "Progress", "SeeingModel", "Sight"]

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

    def new_state(self, max_len: int) -> State:
        """The buffers of one sequence of at most `max_len` rows."""

    def forward(self, ids: Tensor, start: int, state: State) -> Tensor:
        """Read `ids` (rows, int64) at positions start, start + 1, …: hidden states (rows, hidden) after the last norm.

        Rows below `start` of the state are read, those from `start` on are written; its recurrent part, which must
        stand at `start`, stands behind the last of them after it. A forward that fails leaves it where it stood.
        """

    def verify(self, ids: Tensor, parents: Tensor, start: int, state: State) -> Tensor:
        """Read a tree of `ids` (rows) behind the first `start` rows: hidden states as from `forward`, each row's over
        the prefix and its own path (ENG-057). `parents` (rows): see `tandem.engine.kernels.trees`.

        The sequence stays as it is; `state.commit` takes a path.
        """

    def logits(self, hidden: Tensor) -> Tensor:
        """(rows, hidden) to logits (rows, vocab) in fp32, for any number of rows (ENG-011)."""


class Sight(NamedTuple):
    """What some of the rows of one forward have in place of their ids, and where all of them stand."""

    rows: Tensor  # (N, hidden): what a tower made of the images, of their rows in this forward
    at: Tensor  # (N) int64: which of its rows those are
    positions: Tensor  # (3, rows) int64: time, height and width of every row


@runtime_checkable
class SeeingModel(Model, Protocol):
    """A decoder that reads what a tower saw."""

    def forward_seen(self, ids: Tensor, start: int, state: State, sight: Sight) -> Tensor:
        """As `forward`, for rows of which some are an image's. Text that follows goes through `forward`, which takes it
        to stand behind the highest position of the newest row here (ENG-099).
        """


Load: TypeAlias = Callable[[ModelConfig, Weights, Progress, CpuWeights], Model]
"""How a model package is entered. `CheckpointError` names what is missing or wrong."""
