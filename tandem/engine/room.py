"""Whether what a start loads, and what it lets grow later, fits the memory there is (ENG-031)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tandem.engine.caches.embeddings import IMAGE_BYTES
from tandem.engine.caches.resident import ANCHOR_BYTES
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.checkpoints.config import ModelConfig, VisionConfig
from tandem.engine.checkpoints.weights import Stored
from tandem.engine.drafting.hot import HotHead
from tandem.engine.errors import CheckpointError
from tandem.engine.memory import GIB, Board, default_margin
from tandem.engine.models import device_matrix
from tandem.engine.models.formats import CpuWeights, bytes_of
from tandem.engine.models.kv import KVCache
from tandem.engine.models.placement import CPU, Placement
from tandem.engine.models.recurrent import Recurrent
from tandem.engine.models.state import State
from tandem.engine.models.vision.load import TOWER, tower_bytes, tower_dtype
from tandem.engine.models.vision.tower import encode_bytes

__all__ = ["ENCODE_BYTES", "Budgets", "Need", "cache_needs", "device_needs", "fitted", "needs", "require_room"]

MTP: Final = "mtp."
"""How the names of a drafting layer begin."""
DEVICE_ANCHOR_BYTES: Final = 4 * GIB
"""27 anchors of a model of 27B."""
ENCODE_BYTES: Final = 6 * GIB
"""The most that encoding one image may take where nothing else is set (ENG-102)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Bytes that may be taken while requests run, and `margin`, which stays free beside all else."""

    anchors: int | None = None
    """None: 1 GiB on the CPU, 4 GiB on a device (ENG-108)."""
    encode: int = ENCODE_BYTES
    images: int = IMAGE_BYTES
    margin: int | None = None
    """None: ENG-189's."""

    def anchors_on(self, placement: Placement) -> int:
        """For recurrent states that are kept there."""
        if self.anchors is not None:
            return self.anchors
        return ANCHOR_BYTES if placement.device.type == "cpu" else DEVICE_ANCHOR_BYTES

    def anchors_of(self, config: ModelConfig, placement: Placement, window: int) -> int:
        """What of that this model can take: an anchor stands at a row, and without recurrent layers it is empty."""
        return min(self.anchors_on(placement), window * Recurrent.bytes_for(config, placement))


@dataclass(frozen=True, slots=True)
class Need:
    """One figure of the sum, in words, and the setting that makes it smaller."""

    what: str
    nbytes: int
    setting: str


def needs(
    stored: Mapping[str, Stored],
    config: ModelConfig,
    cpu_weights: CpuWeights,
    window: int,
    budgets: Budgets,
    draft_hot: int = 0,
) -> list[Need]:
    """What a start of this model takes and will take. Without a tower or recurrent layers their budgets are not used.

    An anchor stands at a row and an image lies in the window, so a small model's are less than their budgets.
    """
    anchors = budgets.anchors_of(config, CPU, window)
    margin = default_margin() if budgets.margin is None else budgets.margin
    found = [
        Need(f"weights in {cpu_weights}", _weights(stored, config, cpu_weights), "--cpu-weights"),
        Need(f"a window of {window} tokens", State.bytes_for(config, window), "--max-len"),
        Need("the drafter's rows and head", _drafter(stored, config, cpu_weights, window, draft_hot), "--drafter"),
        Need("anchors of the resident prefix", anchors, "--resident-gb"),
        *(_of_images(config.vision, cpu_weights, window, budgets) if config.vision else ()),
        Need("a margin", margin, "--load-margin-gib"),
    ]
    return [each for each in found if each.nbytes]


def device_needs(
    stored: Mapping[str, Stored],
    config: ModelConfig,
    placement: Placement,
    window: int,
    budgets: Budgets,
    board: Board | None,
) -> list[Need]:
    """The same for a device, where codes stay as they are stored. A tower and its images stay in the host's memory."""
    anchors = budgets.anchors_of(config, placement, window)
    tied = config.tie_word_embeddings
    weights = sum(
        device_matrix.bytes_of(name, each, placement.dtype)
        for name, each in stored.items()
        if not (tied and name == "lm_head.weight") and not name.startswith(TOWER)
    )
    found = [
        Need("weights as they are stored", weights, "--device cpu"),
        Need(f"a window of {window} tokens", State.bytes_for(config, window, placement), "--max-len"),
        Need("the drafter's rows", _drafter_rows(stored, config, window, placement), "--drafter"),
        Need("anchors of the resident prefix", anchors, "--resident-gb"),
        Need(
            "a margin", default_margin(board=board) if budgets.margin is None else budgets.margin, "--load-margin-gib"
        ),
    ]
    return [each for each in found if each.nbytes]


def cache_needs(caches: CacheSettings) -> list[Need]:
    """What caches of conversations may take beside the window, of those whose budgets somebody has set."""
    asked = [
        Need("what a guest displaces", caches.stash or 0, "--resident-stash-gb"),
        Need("a parked conversation", caches.park or 0, "--park-gb"),
        Need("conversations that are kept", caches.store or 0, "--cache-budget-gb"),
    ]
    return [each for each in asked if each.nbytes]


def fitted(caches: CacheSettings, left: int | None, *, device: bool) -> CacheSettings:
    """With all budgets: those that nobody has set share what is `left` where it is less than their defaults."""
    whole = caches.on(device=device)
    spare = whole.total - caches.total
    if left is None or spare <= left:
        return whole
    shares = {
        name: getattr(whole, name) * max(left, 0) // spare
        for name in ("stash", "park", "store")
        if getattr(caches, name) is None
    }
    return replace(whole, **shares)


def require_room(name: str, asked: list[Need], room: int | None) -> None:
    """`CheckpointError` with every figure where they are more than `room`, which None leaves unknown."""
    if room is None or sum(each.nbytes for each in asked) <= room:
        return
    *first, last = [f"{each.what} of {_gib(each.nbytes)} ({each.setting})" for each in asked]
    figures = f"{', '.join(first)} and {last}" if first else last
    raise CheckpointError(f"{name} does not fit: {figures} are more than the {_gib(room)} available")


def _weights(stored: Mapping[str, Stored], config: ModelConfig, cpu_weights: CpuWeights) -> int:
    tied = config.tie_word_embeddings
    decoder = sum(
        bytes_of(each.shape, cpu_weights, layer=name.startswith(("layers.", MTP)))
        for name, each in stored.items()
        if not (tied and name == "lm_head.weight") and not name.startswith(TOWER)
    )
    return decoder + tower_bytes((each.shape for name, each in stored.items() if name.startswith(TOWER)), cpu_weights)


def _drafter(
    stored: Mapping[str, Stored], config: ModelConfig, cpu_weights: CpuWeights, window: int, draft_hot: int
) -> int:
    rows = _drafter_rows(stored, config, window, CPU)
    hot = HotHead.ids_of(config.vocab_size, draft_hot)
    head = 0 if hot is None else bytes_of((len(hot), config.hidden_size), cpu_weights, layer=False)
    return rows + head if rows else 0


def _drafter_rows(stored: Mapping[str, Stored], config: ModelConfig, window: int, placement: Placement) -> int:
    """A drafting layer is read where there is to be a drafter on it, and has rows of its own."""
    if not any(name.startswith(MTP) for name in stored):
        return 0
    return KVCache.bytes_for(1, config.num_key_value_heads, window, config.head_dim, placement)


def _of_images(vision: VisionConfig, cpu_weights: CpuWeights, window: int, budgets: Budgets) -> Iterator[Need]:
    rows = min(window, vision.max_pixels // (vision.patch_size * vision.spatial_merge_size) ** 2)
    encode = min(budgets.encode, rows * encode_bytes(vision, tower_dtype(cpu_weights)))
    yield Need("the encoding of an image", encode, "--image-act-gb")
    yield Need("images that are kept", budgets.images, "--image-cache-mb")


def _gib(count: int) -> str:
    return f"{count / GIB:.2f} GiB"
