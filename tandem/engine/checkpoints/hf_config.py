"""`config.json` and `generation_config.json` of a Hugging Face directory (ENG-001, ENG-014)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tandem.engine.checkpoints.config import ModelConfig, SamplingCard
from tandem.engine.checkpoints.registry import architecture_of
from tandem.engine.errors import CheckpointError

__all__ = ["read_config", "read_json", "read_sampling"]


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; `CheckpointError` names a file that cannot be read or holds none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: holds no JSON object")
    return value


def read_config(directory: Path) -> ModelConfig:
    """The sizes in `config.json`, text-only or under `text_config`, and the end ids of both configs."""
    path = directory / "config.json"
    raw = read_json(path)
    declared = (raw.get("architectures") or [raw.get("model_type", "(none declared)")])[0]
    architecture = architecture_of(declared, str(path))
    if quantization := raw.get("quantization_config"):
        raise CheckpointError(f"{path}: weights quantised as {quantization.get('quant_method')} are not served")
    sizes = {**raw, **raw.get("text_config", {})}
    if (activation := sizes.get("hidden_act", "silu")) != "silu":
        raise CheckpointError(f"{path}: hidden_act {activation} is not served, only silu")
    try:
        return _model_config(sizes, architecture, directory)
    except KeyError as error:
        raise CheckpointError(f"{path}: has no {error.args[0]}") from None
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _model_config(sizes: Mapping[str, Any], architecture: str, directory: Path) -> ModelConfig:
    heads = int(sizes["num_attention_heads"])
    theta, scaling = _rope(sizes)
    return ModelConfig(
        architecture=architecture,
        name=directory.resolve().name,
        vocab_size=int(sizes["vocab_size"]),
        hidden_size=int(sizes["hidden_size"]),
        intermediate_size=int(sizes["intermediate_size"]),
        num_hidden_layers=int(sizes["num_hidden_layers"]),
        num_attention_heads=heads,
        num_key_value_heads=int(sizes.get("num_key_value_heads") or heads),
        head_dim=int(sizes.get("head_dim") or int(sizes["hidden_size"]) // heads),
        max_position_embeddings=int(sizes["max_position_embeddings"]),
        rms_norm_eps=float(sizes["rms_norm_eps"]),
        rope_theta=theta,
        rope_scaling=scaling,
        tie_word_embeddings=bool(sizes.get("tie_word_embeddings", False)),
        attention_bias=bool(sizes.get("attention_bias", False)),
        mlp_bias=bool(sizes.get("mlp_bias", False)),
        end_ids=_ids(sizes.get("eos_token_id")) | _ids(_generation(directory).get("eos_token_id")),
    )


def _rope(sizes: Mapping[str, Any]) -> tuple[float, dict[str, object]]:
    """Base and scaling, from `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before it)."""
    given = dict(sizes.get("rope_parameters") or sizes.get("rope_scaling") or {})
    theta = float(given.pop("rope_theta", None) or sizes.get("rope_theta") or 10000.0)
    kind = given.pop("rope_type", None) or given.pop("type", None) or "default"
    given.pop("type", None)
    return theta, {} if kind == "default" else {"rope_type": kind, **given}


def _ids(value: Any) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset(value) if isinstance(value, list) else frozenset((int(value),))


def _generation(directory: Path) -> dict[str, Any]:
    path = directory / "generation_config.json"
    return read_json(path) if path.exists() else {}


def read_sampling(directory: Path) -> SamplingCard:
    """The card's sampling, empty without a `generation_config.json`."""
    raw = _generation(directory)
    return SamplingCard(
        temperature=raw.get("temperature"),
        top_p=raw.get("top_p"),
        top_k=raw.get("top_k"),
    )
