"""Which drafter a start gets, and whether the checkpoint offers what that one reads (ENG-046, ENG-047)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

import torch

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.weights import CodedWeights
from tandem.engine.drafting.agreement import WINDOW, disagreement
from tandem.engine.drafting.block import BlockDrafter
from tandem.engine.drafting.block_layers import BlockLayers
from tandem.engine.drafting.block_load import open_block
from tandem.engine.drafting.combined import Combined, Proposing
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.drafting.hot import HotHead
from tandem.engine.drafting.lookups import NO_LOOKUPS, OpenLookups
from tandem.engine.drafting.measured import Clock, measured
from tandem.engine.drafting.mtp import MtpDrafter
from tandem.engine.drafting.prices import Prices, Table
from tandem.engine.errors import CheckpointError
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.model import DeviceModel, DraftLayer, Model, Progress, SharingModel
from tandem.engine.models.registry import device_draft_layer_of, draft_layer_of
from tandem.engine.models.tapped import Tapped
from tandem.engine.text.model import TextModel

__all__ = [
    "DRAFTERS",
    "DrafterAsked",
    "DrafterKind",
    "Drafting",
    "chosen",
    "looks_up",
    "make_drafter",
    "reads_layer",
    "require_offered",
]

DrafterKind: TypeAlias = Literal["none", "lookup", "mtp", "mtp+lookup"]
"""What drafts."""
DrafterAsked: TypeAlias = DrafterKind | Literal["auto"]
"""The values of `--drafter`."""
DRAFTERS: tuple[DrafterKind, ...] = get_args(DrafterKind)

_PROPOSING: Final = Proposing()
_JOIN = "mtp.fc.weight"
"""A checkpoint has it where it has a drafting layer."""


@dataclass(frozen=True, slots=True)
class _Kit:
    """What all slots' drafters have in common."""

    layer: DraftLayer | None
    head: HotHead | None
    block: tuple[BlockLayers, Tapped] | None
    lookups: OpenLookups | None
    barred: tuple[int, ...]
    proposing: Proposing
    costs: Table | None

    def drafter(self, window: int) -> Drafter | None:
        drafters = list[Drafter]()
        if (layer := self.layer) is not None:
            drafters.append(_roomy(partial(MtpDrafter, layer, window, hot=self.head), window))
        if (block := self.block) is not None:
            drafters.append(_roomy(partial(BlockDrafter, *block, window), window))
        if self.lookups is not None:
            drafters.append(self.lookups.drafter(self.barred))
        if not drafters:
            return None
        # Alone as well, for what is proposed has to pay for its verify.
        store = None if self.lookups is None else self.lookups.store
        return Combined(drafters, prices=Prices(self.costs), store=store, proposing=self.proposing)


@dataclass(frozen=True, slots=True)
class Drafting:
    """A drafter, and the weights that were loaded for it."""

    drafter: Drafter | None = None
    nbytes: Mapping[str, int] = field(default_factory=dict)
    """By group, as a model's."""
    formats: Mapping[str, int] = field(default_factory=dict)
    off: str = ""
    """Why a drafter that was asked for is not used."""
    target: Tapped | None = None
    """The model in whose place it is to be served, where the drafter listens to its layers."""
    beside: Callable[[int], Drafter | None] = lambda window: None
    """One more over the same weights and texts, for a side slot with that window (ENG-160)."""

    @property
    def name(self) -> str:
        return "none" if self.drafter is None else self.drafter.name


def chosen(asked: DrafterAsked, skipped: object) -> tuple[DrafterKind, str]:
    """What drafts where `asked` is, and why where that is `auto`; of the checkpoint these parts are not read.

    A lookup loads nothing, and proposes only what the verifies measured so far let it expect to pay for itself. A
    prediction layer takes memory and a pass a round whether it pays or not: no checkpoint that has one has been
    measured yet, so it drafts where it is asked for.
    """
    if asked != "auto":
        return asked, ""
    if isinstance(skipped, Container) and "mtp" in skipped:
        return "lookup", "its prediction layer has not been measured to pay; --drafter mtp+lookup takes it as well"
    return "lookup", "the checkpoint has no layer that drafts"


def reads_layer(kind: DrafterAsked) -> bool:
    """Whether it drafts with a layer of the checkpoint."""
    return kind in ("mtp", "mtp+lookup")


def looks_up(kind: DrafterKind) -> bool:
    """Whether it drafts from text."""
    return kind in ("lookup", "mtp+lookup")


def require_offered(kind: DrafterKind, config: ModelConfig, names: Iterable[str]) -> None:
    """`CheckpointError` where a checkpoint with tensors `names` lacks what the drafter reads."""
    if reads_layer(kind) and (draft_layer_of(config.architecture) is None or _JOIN not in names):
        raise CheckpointError(
            f"--drafter {kind}: {config.name} ({config.architecture}) has no layer that drafts, which would have "
            f"{_JOIN}; --drafter lookup or none serves it"
        )


def make_drafter(
    kind: DrafterKind,
    model: Model,
    text: TextModel,
    weights: CodedWeights,
    progress: Progress,
    cpu_weights: CpuWeights,
    *,
    window: int,
    hot: int = 0,
    lookups: OpenLookups = NO_LOOKUPS,
    proposing: Proposing = _PROPOSING,
    tokenizer: str = "",
    clock: Clock = time.perf_counter,
) -> Drafting:
    """The drafter beside `model`, for sequences of at most `window` tokens; what it needs of `weights` is loaded.

    A drafting layer proposes `hot` ids of the vocabulary, 0: all. `lookups`: where a lookup looks beside the request.
    `tokenizer` is the sha256 of the model's, which a block drafter has to be made for.
    On CUDA it is measured by `clock`, in seconds, what verifies cost; on the CPU they are taken to cost the same until
    they have been paid for (ENG-062).
    """
    config, nbytes, formats, off = model.config, dict[str, int](), Counter[str](), ""
    layer, head = None, None
    if reads_layer(kind):
        layer = _layer(model, weights, progress, cpu_weights)
        _check(layer, config)
        head = _hot_head(model, hot, cpu_weights)
        off = disagreement(model, text, MtpDrafter(layer, WINDOW, hot=head)) if head else ""
        if off:
            layer = None
        else:
            nbytes = {"mtp": layer.nbytes} | ({} if head is None else {"hot head": head.nbytes})
            formats.update(layer.formats)
    block = None
    if proposing.block is not None:
        block = open_block(proposing.block, model, tokenizer, progress, cpu_weights)
        nbytes, formats = nbytes | {"block": block[0].nbytes}, formats + Counter(block[0].formats)
    looks = looks_up(kind)
    kit = _Kit(
        layer,
        head,
        block,
        lookups if looks else None,
        () if config.vision is None else (config.vision.image_token_id,),
        proposing,
        measured(model, window, clock) if (looks or layer is not None) and _is_cuda(model) else None,
    )
    return Drafting(kit.drafter(window), nbytes, formats, off and f"mtp: {off}", block and block[1], kit.drafter)


def _is_cuda(model: Model) -> bool:
    return isinstance(model, DeviceModel) and model.placement.device.type == "cuda"


def _layer(model: Model, weights: CodedWeights, progress: Progress, cpu_weights: CpuWeights) -> DraftLayer:
    architecture = model.config.architecture
    if isinstance(model, DeviceModel):
        if (load_on_device := device_draft_layer_of(architecture)) is not None:
            return load_on_device(model, weights, progress)
    elif (load := draft_layer_of(architecture)) is not None:
        return load(model, weights, progress, cpu_weights)
    raise CheckpointError(
        f"{architecture}: a drafting layer cannot run where this model does; --drafter none serves it"
    )


def _hot_head(model: Model, hot: int, cpu_weights: CpuWeights) -> HotHead | None:
    """None on a device, where a whole head is read fast enough."""
    ids = HotHead.ids_of(model.config.vocab_size, hot)
    if ids is None or not isinstance(model, SharingModel):
        return None
    return HotHead(model.head, ids, model.config.hidden_size, cpu_weights)


def _roomy(make: Callable[[], Drafter], window: int) -> Drafter:
    try:
        return make()
    except (RuntimeError, MemoryError) as error:
        raise CheckpointError(f"no memory for the drafter's window of {window} tokens; lower --max-len") from error


def _check(layer: DraftLayer, config: ModelConfig) -> None:
    """`CheckpointError` where two rows give a number that is not finite (ENG-053)."""
    with torch.inference_mode():
        state = layer.forward(torch.arange(2), torch.ones(2, config.hidden_size), 0, layer.new_cache(2))
        if not layer.logits(state).isfinite().all():
            raise CheckpointError(
                f"{config.name}: the self-check of the drafting layer gave logits that are not finite"
            )
