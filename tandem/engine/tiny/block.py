"""A tiny block drafter for a tiny target (ENG-017, ENG-054)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from tandem.engine.checkpoints.block import ARCHITECTURE
from tandem.engine.tiny.files import write_json, write_tensors

__all__ = ["block_config", "block_tensors", "build_block"]


def block_config(vocab_size: int, tokenizer_sha256: str = "", **overrides: Any) -> dict[str, Any]:
    """Its `config.json` for a target of hidden 64 and two layers; `overrides` replace or add keys."""
    config: dict[str, Any] = {
        "architectures": [ARCHITECTURE],
        "hidden_size": 64,
        "vocab_size": vocab_size,
        "tokenizer_sha256": tokenizer_sha256,
        "tapped_layers": [0, 1],
        "block_width": 15,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 96,
        "bigram_rank": 8,
        "rope_theta": 10_000.0,
        "rms_norm_eps": 1e-6,
    }
    return config | overrides


def block_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random tensors in fp32."""
    draw = torch.Generator().manual_seed(seed)
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    taps, rank = len(config["tapped_layers"]), config["bigram_rank"]

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=draw) / math.sqrt(columns)

    def norm(*shape: int) -> torch.Tensor:
        return 1.0 + 0.1 * torch.randn(*shape, generator=draw)

    tensors = {
        "tap_norms.weight": norm(taps, hidden),
        "fuse.weight": matrix(hidden, taps * hidden),
        "context_norm.weight": norm(hidden),
        "slot.weight": torch.randn(1, hidden, generator=draw),
        "norm.weight": norm(hidden),
        "bigram.before.weight": matrix(rank, hidden),
        "bigram.after.weight": matrix(rank, hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}."
        tensors[f"{at}input_layernorm.weight"] = norm(hidden)
        tensors[f"{at}post_attention_layernorm.weight"] = norm(hidden)
        for name, shape in {
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }.items():
            tensors[f"{at}{name}.weight"] = matrix(*shape)
    return tensors


def build_block(directory: Path, *, vocab_size: int, tokenizer_sha256: str, seed: int = 0, **overrides: Any) -> Path:
    """Write one into `directory` (made where missing) and return it; `overrides` go into `config.json`."""
    directory.mkdir(parents=True, exist_ok=True)
    config = block_config(vocab_size, tokenizer_sha256, **overrides)
    write_json(directory / "config.json", config)
    write_tensors(directory, block_tensors(config, seed), 1)
    return directory
