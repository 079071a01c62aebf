"""A tiny Llama: hidden 64, 2 layers, 4 query and 2 KV heads of 16."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from tandem.engine.tiny.files import write_json, write_tensors
from tandem.engine.tiny.templates import CHATML
from tandem.engine.tiny.vocabulary import SPECIALS, tiny_tokenizer

__all__ = ["build_llama", "llama_config", "llama_tensors"]


def llama_config(vocab_size: int, *, tied: bool = True, **overrides: Any) -> dict[str, Any]:
    """The `config.json` of a tiny Llama; `overrides` replace or add keys."""
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocab_size,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "dtype": "float32",
    }
    return config | overrides


def llama_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random tensors (fp32) under Hugging Face's names, of a size that keeps logits apart."""
    draw = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=draw) / math.sqrt(columns)

    def norm() -> torch.Tensor:
        return 1.0 + 0.1 * torch.randn(hidden, generator=draw)

    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    tensors = {"model.embed_tokens.weight": torch.randn(config["vocab_size"], hidden, generator=draw)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors[at + "input_layernorm.weight"] = norm()
        tensors[at + "post_attention_layernorm.weight"] = norm()
        projections = {"q_proj": (queries, hidden), "k_proj": (keys, hidden), "v_proj": (keys, hidden)}
        for name, shape in {**projections, "o_proj": (hidden, queries)}.items():
            tensors[f"{at}self_attn.{name}.weight"] = matrix(*shape)
            if config["attention_bias"]:
                tensors[f"{at}self_attn.{name}.bias"] = 0.1 * torch.randn(shape[0], generator=draw)
        for name, shape in {
            "gate_proj": (inner, hidden),
            "up_proj": (inner, hidden),
            "down_proj": (hidden, inner),
        }.items():
            tensors[f"{at}mlp.{name}.weight"] = matrix(*shape)
            if config["mlp_bias"]:
                tensors[f"{at}mlp.{name}.bias"] = 0.1 * torch.randn(shape[0], generator=draw)
    tensors["model.norm.weight"] = norm()
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    return tensors


def build_llama(
    directory: Path,
    *,
    seed: int = 0,
    tied: bool = True,
    shards: int = 1,
    dtype: torch.dtype = torch.float32,
    template: str | None = CHATML,
    **overrides: Any,
) -> Path:
    """Write a tiny Llama checkpoint into `directory` (made where missing) and return it.

    `shards` above 1 splits the tensors over files with an index. `template` None leaves the chat template out.
    `overrides` go into `config.json`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer()
    tokenizer.save(str(directory / "tokenizer.json"))
    card: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIALS[0],
        "eos_token": SPECIALS[2],
        "pad_token": SPECIALS[0],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
    }
    if template is not None:
        card["chat_template"] = template
    write_json(directory / "tokenizer_config.json", card)
    config = llama_config(tokenizer.get_vocab_size(), tied=tied, **overrides)
    write_json(directory / "config.json", config | {"dtype": str(dtype).removeprefix("torch.")})
    write_json(directory / "generation_config.json", {"bos_token_id": 0, "eos_token_id": [2, 0]})
    tensors = {name: tensor.to(dtype).contiguous() for name, tensor in llama_tensors(config, seed).items()}
    write_tensors(directory, tensors, shards)
    return directory
