"""Which drafter a start gets, and whether the checkpoint offers what that one reads (ENG-046, ENG-047)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import torch

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.weights import CodedWeights
from tandem.engine.drafting.agreement import WINDOW, disagreement
from tandem.engine.drafting.combined import Combined
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.drafting.hot import HotHead
from tandem.engine.drafting.lookups import NO_LOOKUPS, OpenLookups
from tandem.engine.drafting.mtp import MtpDrafter
from tandem.engine.errors import CheckpointError
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.model import DeviceModel, DraftLayer, Model, Progress, SharingModel
from tandem.engine.models.registry import device_draft_layer_of, draft_layer_of
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

_JOIN = "mtp.fc.weight"
"""A checkpoint has it where it has a drafting layer."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """A drafter, and the weights that were loaded for it."""

    drafter: Drafter | None = None
    nbytes: Mapping[str, int] = field(default_factory=dict)
    """By group, as a model's."""
    formats: Mapping[str, int] = field(default_factory=dict)
    off: str = ""
    """Why a drafter that was asked for is not used."""

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
) -> Drafting:
    """The drafter beside `model`, for sequences of at most `window` tokens; what it needs of `weights` is loaded.

    A drafting layer proposes `hot` ids of the vocabulary, 0: all. `lookups`: where a lookup looks beside the request.
    """
    config, drafters = model.config, list[Drafter]()
    nbytes, formats, off = dict[str, int](), Counter[str](), ""
    if reads_layer(kind):
        layer = _layer(model, weights, progress, cpu_weights)
        _check(layer, config)
        head = _hot_head(model, hot, cpu_weights)
        off = disagreement(model, text, MtpDrafter(layer, WINDOW, hot=head)) if head else ""
        if not off:
            drafters.append(_mtp(layer, window, head))
            nbytes = {"mtp": layer.nbytes} | ({} if head is None else {"hot head": head.nbytes})
            formats.update(layer.formats)
    if looks_up(kind):
        drafters.append(lookups.drafter(() if config.vision is None else (config.vision.image_token_id,)))
    # Alone as well, for what is proposed has to pay for its verify.
    drafter = Combined(drafters, store=lookups.store) if drafters else None
    return Drafting(drafter, nbytes, formats, off and f"mtp: {off}")


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


def _mtp(layer: DraftLayer, window: int, hot: HotHead | None) -> MtpDrafter:
    try:
        return MtpDrafter(layer, window, hot=hot)
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
