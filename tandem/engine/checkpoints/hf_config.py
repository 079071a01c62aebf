"""`config.json` and `generation_config.json` of a Hugging Face directory (ENG-001, ENG-014)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from tandem.engine.checkpoints.config import LayerType, ModelConfig, SamplingCard
from tandem.engine.checkpoints.quantised import require_served_quantisation
from tandem.engine.checkpoints.registry import architecture_of, defaults_of
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
    if quantisation := raw.get("quantization_config"):
        require_served_quantisation(quantisation, str(path))
    sizes = {**raw, **raw.get("text_config", {})}
    sizes |= {key: value for key, value in defaults_of(architecture).items() if sizes.get(key) is None}
    if "tie_word_embeddings" in raw:
        # The declared model is the outer one: it has the head.
        sizes["tie_word_embeddings"] = raw["tie_word_embeddings"]
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
    rope = dict(sizes.get("rope_parameters") or sizes.get("rope_scaling") or {})
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
        partial_rotary_factor=float(rope.get("partial_rotary_factor") or sizes.get("partial_rotary_factor") or 1.0),
        mrope_section=tuple(int(pairs) for pairs in rope.get("mrope_section") or ()),
        mrope_interleaved=bool(rope.get("mrope_interleaved", False)),
        tie_word_embeddings=bool(sizes.get("tie_word_embeddings", False)),
        attention_bias=bool(sizes.get("attention_bias", False)),
        mlp_bias=bool(sizes.get("mlp_bias", False)),
        attn_output_gate=bool(sizes.get("attn_output_gate", False)),
        layer_types=_layer_types(sizes),
        linear_num_key_heads=int(sizes.get("linear_num_key_heads") or 0),
        linear_num_value_heads=int(sizes.get("linear_num_value_heads") or 0),
        linear_key_head_dim=int(sizes.get("linear_key_head_dim") or 0),
        linear_value_head_dim=int(sizes.get("linear_value_head_dim") or 0),
        linear_conv_kernel_dim=int(sizes.get("linear_conv_kernel_dim") or 0),
        end_ids=_ids(sizes.get("eos_token_id")) | _ids(_generation(directory).get("eos_token_id")),
    )


def _layer_types(sizes: Mapping[str, Any]) -> tuple[LayerType, ...]:
    """The layer list, or every n-th layer full attention and the others linear; empty where neither is named."""
    layers = int(sizes["num_hidden_layers"])
    kinds = sizes.get("layer_types")
    if kinds is None and (interval := sizes.get("full_attention_interval")):
        kinds = ["linear_attention" if at % int(interval) else "full_attention" for at in range(1, layers + 1)]
    kinds = tuple(kinds or ())
    if unknown := sorted(set(kinds) - set(get_args(LayerType))):
        raise ValueError(f"layer type {unknown[0]} is not served")
    if kinds and len(kinds) != layers:
        raise ValueError(f"layer_types names {len(kinds)} layers of {layers}")
    return kinds


def _rope(sizes: Mapping[str, Any]) -> tuple[float, dict[str, object]]:
    """Base and scaling, from `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before it)."""
    given = dict(sizes.get("rope_parameters") or sizes.get("rope_scaling") or {})
    theta = float(given.pop("rope_theta", None) or sizes.get("rope_theta") or 10000.0)
    kind = given.pop("rope_type", None) or given.pop("type", None) or "default"
    for key in ("type", "partial_rotary_factor", "mrope_section", "mrope_interleaved"):
        given.pop(key, None)
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
