"""What a model package gives the engine: layers, and nothing about requests (ENG-167)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.weights import CodedWeights, Weights
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.kv import KVCache
from tandem.engine.models.matrix import Table
from tandem.engine.models.placement import Placement
from tandem.engine.models.state import State

__all__ = [
    "DeviceModel",
    "DraftLayer",
    "Drafts",
    "JointModel",
    "Load",
    "LoadDraftLayer",
    "LoadDraftLayerOnDevice",
    "LoadOnDevice",
    "Model",
    "Progress",
    "SeeingModel",
    "SharingModel",
    "Sight",
]

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


class Drafts(NamedTuple):
    """The tree of one sequence in a joint verify: what `Model.verify` takes."""

    ids: Tensor  # (rows) int64
    parents: Tensor  # (rows)
    start: int
    state: State


@runtime_checkable
class JointModel(Model, Protocol):
    """A decoder that verifies the trees of several sequences in one pass (ENG-162)."""

    def verify_joint(self, trees: Sequence[Drafts]) -> Tensor:
        """As `verify` for each of the trees, whose states are different ones: hidden states (rows of all, hidden).

        Weights that are large are read once for all rows. What is a sequence's own is computed for its rows alone, so
        where every matrix gives a row the same bits among any others, so does this: see `DigitMatrix`, up to its count
        of rows in all. A pass that fails leaves every sequence as it is.
        """


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


@runtime_checkable
class SharingModel(Model, Protocol):
    """A decoder whose embedding, rotations and head a layer that drafts uses too."""

    def embed(self, ids: Tensor) -> Tensor:
        """(rows) to (rows, hidden) in fp32."""

    @property
    def head(self) -> Table:
        """Its rows are the vocabulary's."""

    def turns_of(self, start: int, end: int) -> Tensor:
        """The rotations of positions `start` to below `end`: (positions, 1, turned / 2)."""


@runtime_checkable
class DeviceModel(Model, Protocol):
    """A decoder that is placed somewhere, with operations that were chosen for that place."""

    @property
    def placement(self) -> Placement: ...

    @property
    def kernels(self) -> Mapping[str, str]:
        """What serves each operation, and why it is not a kernel where it is none; for the load report (ENG-031)."""


class DraftLayer(Protocol):
    """The multi-token prediction layer of a checkpoint (arXiv:2404.19737, as chained in DeepSeek-V3, arXiv:2412.19437).

    Row i joins the decoder's hidden state of token i, after its last norm, with token i + 1, and predicts token i + 2
    through the decoder's head. Its attention has rows of its own, in a cache that it makes.
    """

    @property
    def nbytes(self) -> int:
        """Bytes of its weights."""

    @property
    def formats(self) -> Mapping[str, int]:
        """Matrices by their format in memory."""

    def new_cache(self, max_len: int) -> KVCache: ...

    def keep(self, ids: Tensor, hidden: Tensor, start: int, cache: KVCache) -> None:
        """Write the cache's rows from `start` on: of `ids` (rows, int64) and the states (rows, hidden) before them."""

    def forward(self, ids: Tensor, hidden: Tensor, start: int, cache: KVCache) -> Tensor:
        """As `keep`; its own hidden state (1, hidden) of the last row, after its norm: for `logits`, and for the next
        row in place of a state of the decoder's where there is none.
        """

    def logits(self, hidden: Tensor) -> Tensor:
        """The decoder's: (rows, hidden) to (rows, vocab) in fp32."""


Load: TypeAlias = Callable[[ModelConfig, Weights, Progress, CpuWeights], Model]
"""How a model package is entered. `CheckpointError` names what is missing or wrong."""

LoadOnDevice: TypeAlias = Callable[[ModelConfig, CodedWeights, Progress, Placement], DeviceModel]
"""The same for a device, where codes stay as they are stored."""

LoadDraftLayer: TypeAlias = Callable[[Model, Weights, Progress, CpuWeights], DraftLayer]
"""The same for the drafting layer of a checkpoint, beside the decoder that was loaded from it."""

LoadDraftLayerOnDevice: TypeAlias = Callable[[DeviceModel, CodedWeights, Progress], DraftLayer]
"""And beside a decoder on a device."""
