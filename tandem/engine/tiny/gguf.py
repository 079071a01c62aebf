"""The tiny Llama as a GGUF file, in llama.cpp's layout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, quants

from tandem.engine.tiny.llama import llama_config, llama_tensors
from tandem.engine.tiny.templates import CHATML
from tandem.engine.tiny.vocabulary import SPECIALS, tiny_tokenizer

__all__ = ["build_gguf", "pairs_of_halves"]

_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def pairs_of_halves(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of each head from Hugging Face's rotary halves to llama.cpp's interleaved pairs, one row at a time."""
    rows = tensor.shape[0] // heads
    order = [
        head * rows + half * (rows // 2) + pair for head in range(heads) for pair in range(rows // 2) for half in (0, 1)
    ]
    return tensor[order]


def build_gguf(
    path: Path,
    *,
    seed: int = 0,
    tied: bool = True,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    metadata: Mapping[str, str | int] | None = None,
    raw: Mapping[str, tuple[GGMLQuantizationType, np.ndarray[Any, Any]]] | None = None,
    left_out: tuple[str, ...] = (),
    template: str = CHATML,
    **overrides: Any,
) -> Path:
    """Write a tiny Llama to `path`; matrices are stored as `kind`, norms as F32.

    `metadata` replaces or adds keys; `overrides` are the config's, by Hugging Face's names. `raw` replaces tensors by
    ready bytes, `left_out` leaves tensors or keys out; both go by GGUF names.
    """
    tokenizer = tiny_tokenizer()
    config = llama_config(tokenizer.get_vocab_size(), tied=tied, **overrides)
    writer = GGUFWriter(path, "llama")
    for key, value in (_metadata(config, template) | dict(metadata or {})).items():
        if key in left_out:
            continue
        match value:
            case str():
                writer.add_string(key, value)
            case float():
                writer.add_float32(key, value)
            case _:
                writer.add_uint32(key, value)
    model = json.loads(tokenizer.to_str())["model"]
    writer.add_token_list(sorted(model["vocab"], key=model["vocab"].__getitem__))
    writer.add_token_types([3 if token < len(SPECIALS) else 1 for token in range(len(model["vocab"]))])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    for name, tensor in _tensors(config, seed).items():
        if name in (raw or {}) or name in left_out:
            continue
        stored = kind if tensor.dim() == 2 else GGMLQuantizationType.F32
        writer.add_tensor(name, quants.quantize(tensor.numpy(), stored), raw_dtype=stored)
    for name, (raw_kind, data) in (raw or {}).items():
        writer.add_tensor(name, data, raw_dtype=raw_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _metadata(config: dict[str, Any], template: str) -> dict[str, str | int | float]:
    return {
        "llama.block_count": config["num_hidden_layers"],
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.rope.freq_base": config["rope_theta"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": template,
    }


def _tensors(config: dict[str, Any], seed: int) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, tensor in llama_tensors(config, seed).items():
        parts = name.removeprefix("model.").split(".")
        if parts[0] != "layers":
            top = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}[parts[0]]
            tensors[f"{top}.weight"] = tensor
            continue
        module = ".".join(parts[2:-1])
        if module.endswith(("q_proj", "k_proj")):
            heads = config["num_attention_heads" if module.endswith("q_proj") else "num_key_value_heads"]
            tensor = pairs_of_halves(tensor, heads)
        tensors[f"blk.{parts[1]}.{_NAMES[module]}.{parts[-1]}"] = tensor.contiguous()
    return tensors
