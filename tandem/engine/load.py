"""From a path to an engine that answers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from tandem.engine.caches.resident import ANCHOR_BYTES
from tandem.engine.caches.settings import NO_CACHES, CacheSettings
from tandem.engine.checkpoints.config import ModelConfig, SamplingCard
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.overlay import NONE, Overlays
from tandem.engine.checkpoints.page_cache import drop_pages
from tandem.engine.checkpoints.weights import Asked, Stored
from tandem.engine.checks import check_tower, self_check
from tandem.engine.decoding.sight import Eyes
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.choice import (
    DrafterAsked,
    chosen,
    looks_up,
    make_drafter,
    reads_layer,
    require_offered,
)
from tandem.engine.drafting.combined import Proposing
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.drafting.hot import HOT
from tandem.engine.drafting.lookups import NO_LOOKUPS, Lookups, open_lookups
from tandem.engine.errors import CheckpointError
from tandem.engine.memory import available, cuda_board
from tandem.engine.models.formats import CpuWeights, default_for
from tandem.engine.models.model import Model, Progress, SeeingModel
from tandem.engine.models.placement import CPU, Device, Placement, absence, placed
from tandem.engine.models.registry import device_package_of, fit_of, package_of
from tandem.engine.models.vision import load_tower
from tandem.engine.room import Budgets, cache_needs, device_needs, fitted, needs, require_room
from tandem.engine.slots import SIDE_MAX_LEN, Sides, add_sides
from tandem.engine.text.images import Geometry
from tandem.engine.text.model import TextModel
from tandem.engine.verbs import ModelCard
from tandem.engine.warm import COLD, Warm, kernels_of, warm_of

__all__ = ["build_engine", "load_engine"]

_NAMED = 20
"""Tensors that nobody asked for, as the report names them."""
_DEFAULT_BUDGETS = Budgets()
_DEFAULT_LOOKUPS = Lookups()
_DEFAULT_PROPOSING = Proposing()


def load_engine(
    model_path: Path,
    *,
    max_len: int | None = None,
    grid: int | None = None,
    name: str | None = None,
    threads: int | None = None,
    cpu_weights: CpuWeights | None = None,
    budgets: Budgets = _DEFAULT_BUDGETS,
    end_anchor: bool = True,
    overlays: Overlays = NONE,
    vision: bool = True,
    drafter: DrafterAsked = "none",
    draft_hot: int = HOT,
    lookups: Lookups = _DEFAULT_LOOKUPS,
    proposing: Proposing = _DEFAULT_PROPOSING,
    device: Device = "cpu",
    caches: CacheSettings = NO_CACHES,
    progress: Progress | None = None,
    parallel: int = 1,
    side_max_len: int = SIDE_MAX_LEN,
    floor: int | None = None,
) -> TorchEngine:
    """The engine of the checkpoint at `model_path` (a Hugging Face directory or a GGUF file).

    `max_len` is the window in tokens (default: the model's context), `grid` the multiples at which prefills are cut
    (default: the model package's), `name` what the checkpoint is called instead of its own name. `threads` sets
    torch's intra-op threads, which the whole process shares; None leaves them. `cpu_weights` is what the weights
    become (default: `default_for` the file); `fp32` is the reference. `budgets` are the memory that may be taken
    later and that must stay free; `end_anchor` says whether a prompt may resume where an answer ended. `overlays` are
    quantised files that cover parts of the checkpoint. `vision` loads its tower, where it has one. `drafter` says what
    proposes drafts: a layer of the checkpoint among `draft_hot` ids (0: all), a lookup as `lookups` say, `auto` what is
    best here; `proposing` is how such a layer proposes. `device` says where the model runs; on CUDA its tower alone is
    of `cpu_weights`. `caches` keep what lost its place in the buffer, also over a restart: what the last drain spilled
    is there when this returns (ENG-121).
    `parallel` slots are built in all, those behind the first with a window of `side_max_len` and only as far as each
    leaves `floor` bytes free (ENG-161; None: ENG-189's). `CheckpointError` says in one line what cannot be served.
    """
    started = time.perf_counter()
    if threads is not None:
        torch.set_num_threads(threads)
    checkpoint = open_checkpoint(model_path, overlays, vision=vision, mtp=reads_layer(drafter))
    drafter, why = chosen(drafter, checkpoint.report.get("skipped"))
    require_offered(drafter, checkpoint.config, checkpoint.weights.names())
    looked = open_lookups(lookups, checkpoint.text.sha256) if looks_up(drafter) else NO_LOOKUPS
    window = _window(checkpoint.config, max_len)
    package_of(checkpoint.config.architecture)  # one that nobody serves is refused before anything is weighed
    placement, stored = _placement(device, checkpoint.config.architecture), checkpoint.weights.stored()
    cpu_weights = cpu_weights or default_for(
        each.format for name, each in stored.items() if _in_layer(name) and len(each.shape) == 2
    )
    caches = _weigh(checkpoint.config, stored, placement, cpu_weights, window, budgets, draft_hot, caches)
    opened, weights = time.perf_counter(), Asked(checkpoint.weights)
    model = _load(checkpoint.config, weights, progress or _silent, placement, cpu_weights)
    tower = None
    if checkpoint.config.vision is not None and isinstance(model, SeeingModel):
        tower = load_tower(checkpoint.config.vision, weights, progress or _silent, cpu_weights)
    drafting = make_drafter(
        drafter,
        model,
        checkpoint.text,
        weights,
        progress or _silent,
        cpu_weights,
        window=window,
        hot=draft_hot,
        lookups=looked,
        proposing=proposing,
        tokenizer=checkpoint.text.sha256,
    )
    model = drafting.target or model
    # Nothing of the model lies in the files: what was read has become something else, or was copied.
    checkpoint.weights.close()
    dropped = drop_pages(checkpoint.files)
    read = time.perf_counter()
    self_check(model)
    text, eyes, geometry = checkpoint.text, None, None
    if tower is not None and isinstance(model, SeeingModel):
        # Pillow is imported where images are.
        from tandem.engine.models.vision.preprocess import Cutter

        check_tower(tower)
        cutter = Cutter(tower.config, tower.dtype)
        text, geometry = text.seeing(cutter, tower.config.image_token_id), cutter.geometry
        eyes = Eyes(model, tower, budgets.images)
    report: dict[str, object] = {
        **checkpoint.report,
        "unused": _some(weights.left()),
        "loaded_bytes": dict(model.nbytes) | ({} if tower is None else {"tower": tower.nbytes}) | dict(drafting.nbytes),
        "loaded_formats": dict(Counter(model.formats) + Counter(drafting.formats)),
        "dtype": cpu_weights if placement == CPU else str(placement.dtype).removeprefix("torch."),
        "kernels": kernels_of(model),
        "drafter": drafting.name,
        **({"drafter_why": why} if why else {}),
        **({"drafter_off": drafting.off} if drafting.off else {}),
        "template_lacks": list(checkpoint.text.support.missing),
        "self_check": "ok",
        "pages_dropped": dropped,
        "read_seconds": round(read - opened, 3),
        "seconds": round(time.perf_counter() - started, 3),
    }
    engine = build_engine(
        model,
        text,
        max_len=window,
        grid=grid,
        name=name,
        report=report,
        sampling=checkpoint.sampling,
        eyes=eyes,
        geometry=geometry,
        anchor_bytes=budgets.anchors_on(placement),
        end_anchor=end_anchor,
        drafter=drafting.drafter,
        warm=warm_of(
            checkpoint,
            placement,
            caches,
            window=window,
            grid=grid or model.anchor_grid,
            cpu_weights=cpu_weights,
            kernels=kernels_of(model),
            others=budgets.anchors_of(checkpoint.config, placement, window) + (0 if eyes is None else budgets.images),
            suffix=looked.store,
        ),
    )
    engine.read_spill()
    if parallel > 1:
        sides = Sides(parallel - 1, min(side_max_len, window), floor)
        report |= add_sides(engine, model, placement, drafting, sides)
    return engine


def build_engine(
    model: Model,
    text: TextModel,
    *,
    max_len: int | None = None,
    grid: int | None = None,
    name: str | None = None,
    report: Mapping[str, object] | None = None,
    sampling: SamplingCard | None = None,
    eyes: Eyes | None = None,
    geometry: Geometry | None = None,
    anchor_bytes: int = ANCHOR_BYTES,
    end_anchor: bool = True,
    drafter: Drafter | None = None,
    warm: Warm = COLD,
) -> TorchEngine:
    """The engine over a model that is loaded already; arguments as for `load_engine`.

    `eyes` read images, which `text` cuts by `geometry`. At most `anchor_bytes` of recurrent states are kept.
    """
    config = model.config
    card = ModelCard(
        name=name or config.name,
        architecture=config.architecture,
        max_len=_window(config, max_len),
        vocab_size=config.vocab_size,
        anchor_grid=grid or model.anchor_grid,
        images=eyes is not None,
        geometry=geometry,
        sampling={} if sampling is None else sampling.offered,
        weights=report or {},
        conductor=fit_of(config, thinks=text.knows_thinking),
        tokenizer_sha256=text.sha256,
    )
    try:
        return TorchEngine(
            model,
            text,
            card,
            eyes=eyes,
            anchor_bytes=anchor_bytes,
            end_anchor=end_anchor,
            drafter=drafter,
            caches=warm.caches,
            fingerprint=warm.fingerprint,
            policy=warm.policy,
            suffix=warm.suffix,
        )
    except (RuntimeError, MemoryError) as error:
        raise CheckpointError(f"no memory for a window of {card.max_len} tokens; lower --max-len") from error


def _placement(device: Device, architecture: str) -> Placement:
    """Nothing is asked of CUDA where the CPU is wanted or has to do."""
    served = device_package_of(architecture) is not None
    return placed(device, architecture, served=served, lacking=absence() if served and device != "cpu" else "")


def _weigh(
    config: ModelConfig,
    stored: Mapping[str, Stored],
    placement: Placement,
    cpu_weights: CpuWeights,
    window: int,
    budgets: Budgets,
    draft_hot: int,
    caches: CacheSettings,
) -> CacheSettings:
    """`CheckpointError` where what is loaded, or may be taken later, does not fit (ENG-031). The budgets of caches that
    nobody has set are what is left for them.
    """
    if device := placement.device.type != "cpu":
        board = cuda_board()
        asked, room = device_needs(stored, config, placement, window, budgets, board), available(board=board)
    else:
        asked, room = needs(stored, config, cpu_weights, window, budgets, draft_hot), available()
    asked += cache_needs(caches)
    require_room(config.name, asked, room)
    return fitted(caches, None if room is None else room - sum(each.nbytes for each in asked), device=device)


def _load(
    config: ModelConfig, weights: Asked, progress: Progress, placement: Placement, cpu_weights: CpuWeights
) -> Model:
    load_on_device = device_package_of(config.architecture)
    if placement == CPU or load_on_device is None:
        return package_of(config.architecture)(config, weights, progress, cpu_weights)
    try:
        return load_on_device(config, weights, progress, placement)
    except torch.OutOfMemoryError as error:
        raise CheckpointError(f"{config.name}: the device has no memory left for its weights") from error


def _in_layer(name: str) -> bool:
    return name.startswith("layers.")


def _window(config: ModelConfig, max_len: int | None) -> int:
    context = config.max_position_embeddings
    if max_len is not None and not 2 <= max_len <= context:
        raise CheckpointError(f"--max-len {max_len} must be 2 to {context}, the context of {config.name}")
    return max_len or context


def _some(names: list[str]) -> list[str]:
    """Names for a report, not thousands of them."""
    return names if len(names) <= _NAMED else [*names[:_NAMED], f"and {len(names) - _NAMED} more"]


def _silent(done: int, total: int) -> None:
    """Progress that nobody watches."""
