"""From a path to an engine that answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import torch

from tandem.engine.checkpoints.config import ModelConfig, SamplingCard
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.weights import Stored
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.errors import CheckpointError
from tandem.engine.memory import GIB, available, default_margin
from tandem.engine.models.formats import CpuWeights, bytes_of, default_for
from tandem.engine.models.kv import KVCache
from tandem.engine.models.model import Model, Progress
from tandem.engine.models.registry import package_of
from tandem.engine.text.model import TextModel
from tandem.engine.verbs import ModelCard

__all__ = ["build_engine", "load_engine", "self_check"]


def load_engine(
    model_path: Path,
    *,
    max_len: int | None = None,
    grid: int | None = None,
    name: str | None = None,
    threads: int | None = None,
    cpu_weights: CpuWeights | None = None,
    margin: int | None = None,
    progress: Progress | None = None,
) -> TorchEngine:
    """The engine of the checkpoint at `model_path` (a Hugging Face directory or a GGUF file), on the CPU.

    `max_len` is the window in tokens (default: the model's context), `grid` the multiples at which prefills are cut
    (default: the model package's), `name` what the checkpoint is called instead of its own name. `threads` sets
    torch's intra-op threads, which the whole process shares; None leaves them. `cpu_weights` is what the weights
    become (default: `default_for` the file); `fp32` is the reference. `margin` is the memory in bytes that must stay
    free beside weights and window (default: ENG-189's). `CheckpointError` says in one line what cannot be served and
    why.
    """
    started = time.perf_counter()
    if threads is not None:
        torch.set_num_threads(threads)
    checkpoint = open_checkpoint(model_path)
    window = _window(checkpoint.config, max_len)
    load, stored = package_of(checkpoint.config.architecture), checkpoint.weights.stored()
    cpu_weights = cpu_weights or default_for(
        each.format for name, each in stored.items() if _in_layer(name) and len(each.shape) == 2
    )
    _require_room(stored, checkpoint.config, cpu_weights, window, margin)
    model = load(checkpoint.config, checkpoint.weights, progress or _silent, cpu_weights)
    self_check(model)
    report = {
        **checkpoint.report,
        "loaded_bytes": dict(model.nbytes),
        "loaded_formats": dict(model.formats),
        "dtype": cpu_weights,
        "drafter": "none",
        "template_lacks": list(checkpoint.text.support.missing),
        "self_check": "ok",
        "seconds": round(time.perf_counter() - started, 3),
    }
    return build_engine(
        model, checkpoint.text, max_len=window, grid=grid, name=name, report=report, sampling=checkpoint.sampling
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
) -> TorchEngine:
    """The engine over a model that is loaded already; arguments as for `load_engine`."""
    config = model.config
    card = ModelCard(
        name=name or config.name,
        architecture=config.architecture,
        max_len=_window(config, max_len),
        vocab_size=config.vocab_size,
        anchor_grid=grid or model.anchor_grid,
        sampling={} if sampling is None else sampling.offered,
        weights=report or {},
    )
    try:
        return TorchEngine(model, text, card)
    except (RuntimeError, MemoryError) as error:
        raise CheckpointError(f"no memory for a window of {card.max_len} tokens; lower --max-len") from error


def self_check(model: Model) -> None:
    """One forward of a few tokens, as a chunk and as a single row; `CheckpointError` where a logit is not finite."""
    ids = torch.arange(min(8, model.config.vocab_size, model.config.max_position_embeddings))
    cache = model.new_cache(len(ids))
    with torch.inference_mode():
        hidden = torch.cat((model.forward(ids[:-1], 0, cache), model.forward(ids[-1:], len(ids) - 1, cache)))
        if not model.logits(hidden).isfinite().all():
            raise CheckpointError(f"{model.config.name}: the self-check gave logits that are not finite")


def _require_room(
    stored: Mapping[str, Stored], config: ModelConfig, cpu_weights: CpuWeights, window: int, margin: int | None
) -> None:
    """`CheckpointError` where weights, window and margin do not fit what memory is available (ENG-031)."""
    room = available()
    if room is None:
        return
    weights = sum(bytes_of(each.shape, cpu_weights, layer=_in_layer(name)) for name, each in stored.items())
    cache = KVCache.bytes_for(config.num_hidden_layers, config.num_key_value_heads, window, config.head_dim)
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


def _silent(done: int, total: int) -> None:
    """Progress that nobody watches."""
