"""Random tensors of a tiny Qwen3.5 decoder, its drafting layer and its tower, under the published names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

__all__ = ["TOWER", "qwen3_5_tensors"]

TOWER = "model.visual."
"""What the names of the tower's tensors begin with."""
_DECODER = "model.language_model."


def qwen3_5_tensors(config: Mapping[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random tensors under the published names and in their dtypes, of a size that keeps logits apart.

    Decoder, drafting layer and tower have generators of their own: with a tower the decoder is the same as without.
    """
    text = config["text_config"]
    tensors = _decoder(text, _Draw(seed)) | _mtp(text, _Draw(seed + 1))
    if "vision_config" in config:
        tensors |= _tower(config["vision_config"], _Draw(seed + 2))
    kept = ("A_log", "linear_attn.norm.weight")
    return {name: tensor if name.endswith(kept) else tensor.to(torch.bfloat16) for name, tensor in tensors.items()}


class _Draw:
    """Random tensors from one seed."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._generator)

    def matrix(self, rows: int, columns: int) -> Tensor:
        return self.normal(rows, columns) / math.sqrt(columns)

    def near(self, centre: float, *shape: int) -> Tensor:
        return centre + 0.1 * self.normal(*shape)

    def decays(self, heads: int) -> Tensor:
        """Logarithms of how fast heads forget: some keep a few tokens, some the whole context."""
        return math.log(0.005) + math.log(4 / 0.005) * torch.rand(heads, generator=self._generator)


def _decoder(text: Mapping[str, Any], draw: _Draw) -> dict[str, Tensor]:
    hidden, vocab = text["hidden_size"], text["vocab_size"]
    # With embeddings as large as the layers' outputs a tied random model says its last token for ever.
    scale = 0.2 if text["tie_word_embeddings"] else 1.0
    tensors = {f"{_DECODER}embed_tokens.weight": scale * draw.normal(vocab, hidden)}
    for index, kind in enumerate(text["layer_types"]):
        at = f"{_DECODER}layers.{index}."
        mixer = _delta if kind == "linear_attention" else _attention
        tensors |= _layer(text, at, mixer, draw)
    tensors[f"{_DECODER}norm.weight"] = draw.near(0.0, hidden)
    if not text["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.matrix(vocab, hidden)
    return tensors


def _mtp(text: Mapping[str, Any], draw: _Draw) -> dict[str, Tensor]:
    hidden = text["hidden_size"]
    norms = {f"mtp.{name}.weight": draw.near(0.0, hidden) for name in _MTP_NORMS}
    return {
        "mtp.fc.weight": draw.matrix(hidden, 2 * hidden),
        **norms,
        **_layer(text, "mtp.layers.0.", _attention, draw),
    }


_MTP_NORMS = ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
_Mixer: TypeAlias = Callable[[Mapping[str, Any], str, _Draw], dict[str, Tensor]]


def _layer(text: Mapping[str, Any], at: str, mixer: _Mixer, draw: _Draw) -> dict[str, Tensor]:
    hidden, inner = text["hidden_size"], text["intermediate_size"]
    return {
        f"{at}input_layernorm.weight": draw.near(0.0, hidden),
        **mixer(text, at, draw),
        f"{at}post_attention_layernorm.weight": draw.near(0.0, hidden),
        f"{at}mlp.gate_proj.weight": draw.matrix(inner, hidden),
        f"{at}mlp.up_proj.weight": draw.matrix(inner, hidden),
        f"{at}mlp.down_proj.weight": draw.matrix(hidden, inner),
    }


def _attention(text: Mapping[str, Any], at: str, draw: _Draw) -> dict[str, Tensor]:
    hidden, size, at = text["hidden_size"], text["head_dim"], f"{at}self_attn."
    queries, keys = text["num_attention_heads"] * size, text["num_key_value_heads"] * size
    return {
        f"{at}q_proj.weight": draw.matrix(2 * queries, hidden),  # each head's query, then its gate
        f"{at}k_proj.weight": draw.matrix(keys, hidden),
        f"{at}v_proj.weight": draw.matrix(keys, hidden),
        f"{at}o_proj.weight": draw.matrix(hidden, queries),
        f"{at}q_norm.weight": draw.near(0.0, size),
        f"{at}k_norm.weight": draw.near(0.0, size),
    }


def _delta(text: Mapping[str, Any], at: str, draw: _Draw) -> dict[str, Tensor]:
    hidden, heads, at = text["hidden_size"], text["linear_num_value_heads"], f"{at}linear_attn."
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    values, width = heads * text["linear_value_head_dim"], text["linear_conv_kernel_dim"]
    # Keys are near to queries: a row that reads next to nothing has its roundings magnified by the norm behind it.
    query, own, value = (draw.matrix(rows, hidden) for rows in (keys, keys, values))
    turns, others = (draw.normal(rows, 1, width) / math.sqrt(width) for rows in (keys, values))
    return {
        f"{at}in_proj_qkv.weight": torch.cat((query, 0.9 * query + 0.4 * own, value)),
        f"{at}in_proj_z.weight": draw.matrix(values, hidden),
        f"{at}in_proj_b.weight": draw.matrix(heads, hidden),
        f"{at}in_proj_a.weight": draw.matrix(heads, hidden),
        f"{at}conv1d.weight": torch.cat((turns, turns, others)),
        f"{at}dt_bias": draw.near(1.0, heads),
        f"{at}A_log": draw.decays(heads),
        f"{at}norm.weight": draw.near(1.0, text["linear_value_head_dim"]),
        f"{at}out_proj.weight": draw.matrix(hidden, values),
    }


def _tower(vision: Mapping[str, Any], draw: _Draw) -> dict[str, Tensor]:
    hidden, inner, patch = vision["hidden_size"], vision["intermediate_size"], vision["patch_size"]
    merged = hidden * vision["spatial_merge_size"] ** 2
    pixels = (vision["in_channels"], vision["temporal_patch_size"], patch, patch)

    def linear(name: str, rows: int, columns: int) -> dict[str, Tensor]:
        return {f"{name}.weight": draw.matrix(rows, columns), f"{name}.bias": draw.near(0.0, rows)}

    def norm(name: str) -> dict[str, Tensor]:
        return {f"{name}.weight": draw.near(1.0, hidden), f"{name}.bias": draw.near(0.0, hidden)}

    patches = draw.matrix(hidden, math.prod(pixels)).view(hidden, *pixels)
    tensors = {
        f"{TOWER}patch_embed.proj.weight": patches,
        f"{TOWER}patch_embed.proj.bias": draw.near(0.0, hidden),
        f"{TOWER}pos_embed.weight": 0.1 * draw.normal(vision["num_position_embeddings"], hidden),
    }
    for block in range(vision["depth"]):
        at = f"{TOWER}blocks.{block}."
        tensors |= norm(f"{at}norm1") | linear(f"{at}attn.qkv", 3 * hidden, hidden)
        tensors |= linear(f"{at}attn.proj", hidden, hidden) | norm(f"{at}norm2")
        tensors |= linear(f"{at}mlp.linear_fc1", inner, hidden) | linear(f"{at}mlp.linear_fc2", hidden, inner)
    tensors |= norm(f"{TOWER}merger.norm") | linear(f"{TOWER}merger.linear_fc1", merged, merged)
    return tensors | linear(f"{TOWER}merger.linear_fc2", vision["out_hidden_size"], merged)
