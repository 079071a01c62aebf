"""From a path to an engine that answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import torch

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.errors import CheckpointError
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
    progress: Progress | None = None,
) -> TorchEngine:
    """The engine of the checkpoint at `model_path` (a Hugging Face directory or a GGUF file), on the CPU in fp32.

    `max_len` is the window in tokens (default: the model's context), `grid` the multiples at which prefills are cut
    (default: the model package's), `name` what the checkpoint is called instead of its own name. `threads` sets
    torch's intra-op threads, which the whole process shares; None leaves them. `CheckpointError` says in one line what
    cannot be served and why.
    """
    started = time.perf_counter()
    if threads is not None:
        torch.set_num_threads(threads)
    checkpoint = open_checkpoint(model_path)
    window = _window(checkpoint.config, max_len)
    model = package_of(checkpoint.config.architecture)(checkpoint.config, checkpoint.weights, progress or _silent)
    self_check(model)
    report = {
        **checkpoint.report,
        "loaded_bytes": dict(model.nbytes),
        "dtype": "float32",
        "drafter": "none",
        "self_check": "ok",
        "seconds": round(time.perf_counter() - started, 3),
    }
    return build_engine(model, checkpoint.text, max_len=window, grid=grid, name=name, report=report)


def build_engine(
    model: Model,
    text: TextModel,
    *,
    max_len: int | None = None,
    grid: int | None = None,
    name: str | None = None,
    report: Mapping[str, object] | None = None,
) -> TorchEngine:
    """The engine over a model that is loaded already; arguments as for `load_engine`."""
    config = model.config
    card = ModelCard(
        name=name or config.name,
        architecture=config.architecture,
        max_len=_window(config, max_len),
        vocab_size=config.vocab_size,
        anchor_grid=grid or model.anchor_grid,
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


def _window(config: ModelConfig, max_len: int | None) -> int:
    context = config.max_position_embeddings
    if max_len is not None and not 2 <= max_len <= context:
        raise CheckpointError(f"--max-len {max_len} must be 2 to {context}, the context of {config.name}")
    return max_len or context


def _silent(done: int, total: int) -> None:
    """Progress that nobody watches."""
