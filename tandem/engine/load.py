"""From a path to an engine that answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import torch

from tandem.engine.caches.embeddings import IMAGE_BYTES
from tandem.engine.checkpoints.config import ModelConfig, SamplingCard
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.overlay import NONE, Overlays
from tandem.engine.checkpoints.page_cache import drop_pages
from tandem.engine.checkpoints.weights import Asked, Stored
from tandem.engine.decoding.sight import Eyes
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.errors import CheckpointError
from tandem.engine.memory import GIB, available, default_margin
from tandem.engine.models.formats import KERNELS, CpuWeights, bytes_of, default_for
from tandem.engine.models.model import Model, Progress, SeeingModel
from tandem.engine.models.registry import package_of
from tandem.engine.models.state import State
from tandem.engine.models.vision import Tower, load_tower
from tandem.engine.models.vision.load import TOWER, tower_bytes
from tandem.engine.text.images import Geometry
from tandem.engine.text.model import TextModel
from tandem.engine.verbs import ModelCard

__all__ = ["build_engine", "check_tower", "load_engine", "self_check"]

_NAMED = 20
"""Tensors that nobody asked for, as the report names them."""


def load_engine(
    model_path: Path,
    *,
    max_len: int | None = None,
    grid: int | None = None,
    name: str | None = None,
    threads: int | None = None,
    cpu_weights: CpuWeights | None = None,
    margin: int | None = None,
    overlays: Overlays = NONE,
    vision: bool = True,
    image_cache: int = IMAGE_BYTES,
    progress: Progress | None = None,
) -> TorchEngine:
    """The engine of the checkpoint at `model_path` (a Hugging Face directory or a GGUF file), on the CPU.

    `max_len` is the window in tokens (default: the model's context), `grid` the multiples at which prefills are cut
    (default: the model package's), `name` what the checkpoint is called instead of its own name. `threads` sets
    torch's intra-op threads, which the whole process shares; None leaves them. `cpu_weights` is what the weights
    become (default: `default_for` the file); `fp32` is the reference. `margin` is the memory in bytes that must stay
    free beside weights and window (default: ENG-189's). `overlays` are quantised files that cover parts of the
    checkpoint. `vision` loads its tower, where it has one, and `image_cache` is the memory in bytes for what that makes
    of images. `CheckpointError` says in one line what cannot be served and why.
    """
    started = time.perf_counter()
    if threads is not None:
        torch.set_num_threads(threads)
    checkpoint = open_checkpoint(model_path, overlays, vision=vision)
    window = _window(checkpoint.config, max_len)
    load, stored = package_of(checkpoint.config.architecture), checkpoint.weights.stored()
    cpu_weights = cpu_weights or default_for(
        each.format for name, each in stored.items() if _in_layer(name) and len(each.shape) == 2
    )
    _require_room(stored, checkpoint.config, cpu_weights, window, margin)
    opened, weights = time.perf_counter(), Asked(checkpoint.weights)
    model = load(checkpoint.config, weights, progress or _silent, cpu_weights)
    tower = None
    if checkpoint.config.vision is not None and isinstance(model, SeeingModel):
        tower = load_tower(checkpoint.config.vision, weights, progress or _silent, cpu_weights)
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
        eyes = Eyes(model, tower, image_cache)
    report = {
        **checkpoint.report,
        "unused": _some(weights.left()),
        "loaded_bytes": dict(model.nbytes) | ({} if tower is None else {"tower": tower.nbytes}),
        "loaded_formats": dict(model.formats),
        "dtype": cpu_weights,
        "kernels": {kind: KERNELS.get(kind, kind) for kind in model.formats},
        "drafter": "none",
        "template_lacks": list(checkpoint.text.support.missing),
        "self_check": "ok",
        "pages_dropped": dropped,
        "read_seconds": round(read - opened, 3),
        "seconds": round(time.perf_counter() - started, 3),
    }
    return build_engine(
        model,
        text,
        max_len=window,
        grid=grid,
        name=name,
        report=report,
        sampling=checkpoint.sampling,
        eyes=eyes,
        geometry=geometry,
    )


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
) -> TorchEngine:
    """The engine over a model that is loaded already; arguments as for `load_engine`.

    `eyes` read images, which `text` cuts by `geometry`.
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
    )
    try:
        return TorchEngine(model, text, card, eyes=eyes)
    except (RuntimeError, MemoryError) as error:
        raise CheckpointError(f"no memory for a window of {card.max_len} tokens; lower --max-len") from error


def self_check(model: Model) -> None:
    """One forward of a few tokens, as a chunk and as a single row; `CheckpointError` where a logit is not finite."""
    ids = torch.arange(min(8, model.config.vocab_size, model.config.max_position_embeddings))
    state = model.new_state(len(ids))
    with torch.inference_mode():
        hidden = torch.cat((model.forward(ids[:-1], 0, state), model.forward(ids[-1:], len(ids) - 1, state)))
        if not model.logits(hidden).isfinite().all():
            raise CheckpointError(f"{model.config.name}: the self-check gave logits that are not finite")


def check_tower(tower: Tower) -> None:
    """A pass over the least of images; `CheckpointError` where a number of it is not finite."""
    with torch.inference_mode():
        blank = torch.zeros(tower.config.merged, tower.config.patch_numbers, dtype=tower.dtype)
        if not tower(blank, 1, 1).isfinite().all():
            raise CheckpointError("the self-check of the vision tower gave numbers that are not finite")


def _require_room(
    stored: Mapping[str, Stored], config: ModelConfig, cpu_weights: CpuWeights, window: int, margin: int | None
) -> None:
    """`CheckpointError` where weights, window and margin do not fit what memory is available (ENG-031)."""
    room = available()
    if room is None:
        return
    tied = config.tie_word_embeddings
    weights = sum(
        bytes_of(each.shape, cpu_weights, layer=_in_layer(name))
        for name, each in stored.items()
        if not (tied and name == "lm_head.weight") and not name.startswith(TOWER)
    )
    weights += tower_bytes((each.shape for name, each in stored.items() if name.startswith(TOWER)), cpu_weights)
    cache = State.bytes_for(config, window)
    margin = default_margin() if margin is None else margin
    if weights + cache + margin > room:
        raise CheckpointError(
            f"{config.name} does not fit: weights in {cpu_weights} {_gib(weights)}, a window of {window} tokens "
            f"{_gib(cache)} and a margin of {_gib(margin)} are more than the {_gib(room)} available; "
            "lower --max-len or choose smaller --cpu-weights"
        )


def _in_layer(name: str) -> bool:
    return name.startswith("layers.")


def _gib(count: int) -> str:
    return f"{count / GIB:.2f} GiB"


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
