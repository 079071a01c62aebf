"""Opens a checkpoint, whatever its format, and finds the one that `--model` means."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tandem.engine.checkpoints import embedded
from tandem.engine.checkpoints.config import ModelConfig, SamplingCard
from tandem.engine.checkpoints.gguf import GgufFile, GgufWeights
from tandem.engine.checkpoints.gguf_vocabulary import gguf_text
from tandem.engine.checkpoints.hf_config import read_config, read_sampling
from tandem.engine.checkpoints.hf_text import hf_text
from tandem.engine.checkpoints.pulled import CONFIG, ModelName, find_pulled
from tandem.engine.checkpoints.safetensors import SafetensorsWeights
from tandem.engine.checkpoints.weights import Stored, StoredWeights
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
    """`files` (names), `formats` (tensors by type) and `bytes` (by group) of the load report (ENG-031)."""


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file or a Hugging Face directory. `CheckpointError` says what cannot be served."""
    weights: StoredWeights
    if path.is_dir():
        config, sampling = read_config(path), read_sampling(path)
        weights = opened = SafetensorsWeights(path)
        text, files = hf_text(path, config), opened.files
    else:
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
        weights_key=weights_key(files),
        report=_report(files, weights.stored()),
    )


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


def weights_key(files: Iterable[Path]) -> str:
    """A key of the served files' names, sizes and modification times (ENG-030)."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        status = file.stat()
        digest.update(f"{file.name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _report(files: Iterable[Path], tensors: Mapping[str, Stored]) -> dict[str, object]:
    formats: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    for name, tensor in tensors.items():
        formats[tensor.format] += 1
        groups[_group(name)] += tensor.nbytes
    return {"files": [file.name for file in files], "formats": dict(formats), "bytes": dict(groups)}


def _group(name: str) -> str:
    groups = {"embed_tokens": "embedding", "lm_head": "head", ".self_attn.": "attention", ".mlp.": "mlp"}
    return next((group for part, group in groups.items() if part in name), "norm")
