"""Opens a checkpoint, whatever its format, and finds the one that `--model` means."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tandem.engine.checkpoints import embedded
from tandem.engine.checkpoints.config import ModelConfig, SamplingCard, VisionConfig
from tandem.engine.checkpoints.gguf import GgufFile, GgufWeights
from tandem.engine.checkpoints.gguf_vocabulary import gguf_text
from tandem.engine.checkpoints.hf_config import read_config, read_sampling
from tandem.engine.checkpoints.hf_text import hf_text
from tandem.engine.checkpoints.hf_vision import read_vision
from tandem.engine.checkpoints.layout import Layout, decoder_layout
from tandem.engine.checkpoints.overlay import BUILT, NONE, Overlaid, Overlays
from tandem.engine.checkpoints.pulled import CONFIG, ModelName, find_pulled
from tandem.engine.checkpoints.safetensors import SafetensorsWeights
from tandem.engine.checkpoints.weights import StoredWeights
from tandem.engine.errors import CheckpointError
from tandem.engine.text.checkpoint import CheckpointText

__all__ = ["Checkpoint", "open_checkpoint", "resolve_model", "weights_key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """An opened checkpoint: headers, tokenizer and template are read, tensors are not."""

    path: Path
    config: ModelConfig
    weights: StoredWeights
    text: CheckpointText
    sampling: SamplingCard
    weights_key: str
    """Changes with any served file (ENG-030)."""
    report: Mapping[str, object]
    """`files` (names), `formats` (tensors by type), `bytes` (by group), `skipped` (bytes that the layout leaves out, by
    group) and `overlays` of the load report (ENG-031).
    """
    files: tuple[Path, ...] = ()
    """The weight files."""


def open_checkpoint(path: Path, overlays: Overlays = NONE, *, vision: bool = False, mtp: bool = False) -> Checkpoint:
    """Open a GGUF file or a Hugging Face directory. `CheckpointError` says what cannot be served.

    With `vision` its config and its weights have the tower, where there is one, with `mtp` its weights have the
    layer that drafts; a GGUF file has neither.
    """
    weights: StoredWeights
    if path.is_dir():
        config, sampling = read_config(path), read_sampling(path)
        if vision:
            config = replace(config, vision=_tower_of(path))
        weights = opened = _opened(path, overlays, decoder_layout(vision=config.vision is not None, mtp=mtp))
        if not any(name.startswith("visual.") for name in weights.names()):
            config = replace(config, vision=None)  # some publishers leave the tower out and its config in
        if overlays.fp8_head is not None:
            config = replace(config, tie_word_embeddings=False)  # the head is no longer the embedding
        text, files = hf_text(path, config), opened.files
    else:
        if overlays != NONE:
            raise CheckpointError(f"{path}: nothing can be laid over a GGUF file, only over a Hugging Face directory")
        file = GgufFile(path)
        config, sampling, files = file.config(), SamplingCard(), [path]
        weights, text = GgufWeights(file, config), gguf_text(file, config)
    if not config.tie_word_embeddings and "lm_head.weight" not in weights.names():
        raise CheckpointError(f"{path}: has no lm_head.weight, and its config does not tie the head to the embedding")
    return Checkpoint(
        path=path,
        config=config,
        weights=weights,
        text=text,
        sampling=sampling,
        weights_key=weights_key(files, built=("fp8-head",) if overlays.fp8_head == BUILT else ()),
        report=_report(files, weights) | ({"overlays": overlays.report} if overlays != NONE else {}),
        files=tuple(files),
    )


def _tower_of(path: Path) -> VisionConfig | None:
    try:
        return read_vision(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; --vision off serves its text alone") from None


def _opened(path: Path, overlays: Overlays, layout: Layout) -> SafetensorsWeights | Overlaid:
    base = SafetensorsWeights(path, layout)
    return base if overlays == NONE else Overlaid(base, overlays)


def resolve_model(model: str | Path, state_dir: Path) -> Path:
    """The checkpoint that a value of `--model` means.

    It is the embedded model's name, a directory, a GGUF file, or the name of a pulled model: `ORG/NAME` or
    `ORG/NAME:FILE.gguf`. A path that is there wins over a name. `CheckpointError` says what is missing.
    """
    if str(model) == embedded.NAME:
        return embedded.find(state_dir)
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / CONFIG).is_file():
            raise CheckpointError(f"{path}: is no Hugging Face checkpoint, it has no {CONFIG}")
        return path
    if path.is_file() and path.suffix == ".gguf":
        return path
    if not path.exists() and (name := ModelName.parse(str(model))) is not None:
        try:
            return find_pulled(name, state_dir)
        except CheckpointError as error:
            raise CheckpointError(f"--model {error}") from None
    raise CheckpointError(
        f"--model {model}: expected a Hugging Face directory, a .gguf file, the ORG/NAME of a pulled model or "
        f"{embedded.NAME}" + (", and there is no such file" if not path.exists() else "")
    )


def weights_key(files: Iterable[Path], *, built: Iterable[str] = ()) -> str:
    """A key of the served files' names, sizes and modification times (ENG-030), and of what is `built` from them."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        status = file.stat()
        digest.update(f"{file.name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    for name in built:
        digest.update(f"{name}\0built\n".encode())
    return digest.hexdigest()


def _report(files: Iterable[Path], weights: StoredWeights) -> dict[str, object]:
    formats: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for name, tensor in weights.stored().items():
        formats[tensor.format] += 1
        groups[_group(name)] += tensor.nbytes
    for name, tensor in weights.skipped().items():
        skipped[_group(name)] += tensor.nbytes
    report: dict[str, object] = {
        "files": [file.name for file in files],
        "formats": dict(formats),
        "bytes": dict(groups),
    }
    return report | ({"skipped": dict(skipped)} if skipped else {})


_GROUPS = {
    "input_scale": "activation scales",
    "visual.": "tower",
    "vision_": "tower",
    "multi_modal_projector.": "tower",
    "mtp.": "mtp",
    "embed_tokens": "embedding",
    "lm_head": "head",
    ".self_attn.": "attention",
    ".linear_attn.": "recurrent",
    ".mlp.": "mlp",
}


def _group(name: str) -> str:
    return next((group for part, group in _GROUPS.items() if part in name), "norm")
