"""A tiny Qwen3.5 with its drafting layer, and the layer once more in plain float64, from the tensors alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.qwen3_5 import MtpLayer, Qwen35Model, load_mtp, load_qwen3_5
from tandem.engine.tiny.qwen3_5 import qwen3_5_config, qwen3_5_tensors
from tests.engine.models.hybrid import hybrid_spec
from tests.engine.models.memory import VOCAB, MemoryWeights, quiet

__all__ = ["TinyMtp", "canonical", "copying", "naive", "tiny_mtp"]


@dataclass(frozen=True, slots=True)
class TinyMtp:
    model: Qwen35Model
    layer: MtpLayer
    config: dict[str, Any]
    tensors: dict[str, Tensor]


def canonical(tensors: dict[str, Tensor]) -> MemoryWeights:
    return MemoryWeights({name.removeprefix("model.language_model."): each for name, each in tensors.items()})


def tiny_mtp(seed: int = 0, *, cpu_weights: CpuWeights = "fp32", **overrides: Any) -> TinyMtp:
    config = qwen3_5_config(VOCAB, **overrides)
    return _loaded(config, qwen3_5_tensors(config, seed), cpu_weights)


def copying(seed: int = 0) -> TinyMtp:
    """A model that says behind every token the same one, whatever came before, and whose drafting layer knows it."""
    config = qwen3_5_config(VOCAB)
    tensors = qwen3_5_tensors(config, seed)
    for name, tensor in tensors.items():
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            tensor.zero_()
    hidden = config["text_config"]["hidden_size"]
    tensors["mtp.pre_fc_norm_embedding.weight"] = torch.zeros(hidden)
    tensors["mtp.fc.weight"] = torch.cat((torch.eye(hidden), torch.zeros(hidden, hidden)), dim=1)
    tensors["lm_head.weight"] *= 8  # and is sure of it
    tensors["mtp.norm.weight"] = tensors["model.language_model.norm.weight"]
    return _loaded(config, tensors, "fp32")


def _loaded(config: dict[str, Any], tensors: dict[str, Tensor], cpu_weights: CpuWeights) -> TinyMtp:
    weights = canonical(tensors)
    model = load_qwen3_5(hybrid_spec(config), weights, quiet, cpu_weights)
    return TinyMtp(model, load_mtp(model, weights, quiet, cpu_weights), config, tensors)


def naive(tiny: TinyMtp, ids: list[int], hidden: Tensor, first: int = 0) -> Tensor:
    """States (rows, hidden) of the layer after its norm: row i of token ids[i] and of the state hidden[i] before it, at
    position `first` + i.
    """
    text = tiny.config["text_config"]
    size, heads, groups = text["head_dim"], text["num_attention_heads"], text["num_key_value_heads"]
    eps = text["rms_norm_eps"]

    def weight(name: str) -> Tensor:
        return tiny.tensors[name].double()

    def norm(x: Tensor, name: str) -> Tensor:
        return x.mul(torch.rsqrt(x.square().mean() + eps)).mul(1 + weight(name))

    def turned(x: Tensor, position: int) -> Tensor:
        rotary = int(size * text["rope_parameters"]["partial_rotary_factor"])
        half, out = rotary // 2, x.clone()
        for pair in range(half):
            angle = position / text["rope_parameters"]["rope_theta"] ** (2 * pair / rotary)
            one, other = x[pair], x[pair + half]
            out[pair] = one * math.cos(angle) - other * math.sin(angle)
            out[pair + half] = other * math.cos(angle) + one * math.sin(angle)
        return out

    at, attention = "mtp.layers.0.", "mtp.layers.0.self_attn."
    keys: list[list[Tensor]] = []
    values: list[list[Tensor]] = []
    states = []
    for row, token in enumerate(ids):
        embedded = norm(weight("model.language_model.embed_tokens.weight")[token], "mtp.pre_fc_norm_embedding.weight")
        before = norm(hidden[row].double(), "mtp.pre_fc_norm_hidden.weight")
        x = weight("mtp.fc.weight") @ torch.cat((embedded, before))
        normed = norm(x, f"{at}input_layernorm.weight")
        both = (weight(f"{attention}q_proj.weight") @ normed).view(heads, 2, size)
        key = (weight(f"{attention}k_proj.weight") @ normed).view(groups, size)
        keys.append([turned(norm(each, f"{attention}k_norm.weight"), first + row) for each in key])
        values.append(list((weight(f"{attention}v_proj.weight") @ normed).view(groups, size)))
        mixed = []
        for head in range(heads):
            query = turned(norm(both[head, 0], f"{attention}q_norm.weight"), first + row)
            group = head // (heads // groups)
            shares = torch.softmax(torch.stack([query @ each[group] for each in keys]) / math.sqrt(size), dim=0)
            value = sum(share * each[group] for share, each in zip(shares, values, strict=True))
            mixed.append(value * torch.sigmoid(both[head, 1]))
        x = x + weight(f"{attention}o_proj.weight") @ torch.cat(mixed)
        normed = norm(x, f"{at}post_attention_layernorm.weight")
        gate = weight(f"{at}mlp.gate_proj.weight") @ normed
        inner = gate * torch.sigmoid(gate) * (weight(f"{at}mlp.up_proj.weight") @ normed)
        states.append(norm(x + weight(f"{at}mlp.down_proj.weight") @ inner, "mtp.norm.weight"))
    return torch.stack(states)
