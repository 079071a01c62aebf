"""The pass of a block drafter once more in plain float64, from its tensors alone."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

__all__ = ["naive_block"]


def naive_block(
    config: dict[str, Any], tensors: dict[str, Tensor], taps: Tensor, newest: Tensor, slots: int, position: int
) -> Tensor:
    """Hidden states (slots, hidden) behind the embedding `newest` (hidden) at `position`; `taps` (rows, N, hidden) are
    of the rows from position 0 on.
    """
    eps, size = config["rms_norm_eps"], config["head_dim"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]

    def weight(name: str) -> Tensor:
        return tensors[f"{name}.weight"].double()

    def norm(x: Tensor, by: Tensor) -> Tensor:
        return x / torch.sqrt(x.square().mean() + eps) * by

    def turned(x: Tensor, at: int) -> Tensor:
        half, out = size // 2, x.clone()
        for pair in range(half):
            angle = at / config["rope_theta"] ** (2 * pair / size)
            one, other = x[pair], x[pair + half]
            out[pair] = one * math.cos(angle) - other * math.sin(angle)
            out[pair + half] = other * math.cos(angle) + one * math.sin(angle)
        return out

    context = []
    for row in taps.double():
        normed = [norm(each, by) for each, by in zip(row, weight("tap_norms"), strict=True)]
        context.append(norm(weight("fuse") @ torch.cat(normed), weight("context_norm")))
    block = [newest.double(), *[weight("slot")[0]] * slots]
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}."
        keys: list[list[Tensor]] = []
        values: list[list[Tensor]] = []
        normed = [norm(x, weight(f"{at}input_layernorm")) for x in block]
        for where, x in [*enumerate(context), *enumerate(normed, position)]:
            key = (weight(f"{at}self_attn.k_proj") @ x).view(groups, size)
            keys.append([turned(each, where) for each in key])
            values.append(list((weight(f"{at}self_attn.v_proj") @ x).view(groups, size)))
        for number, x in enumerate(normed):
            mixed = []
            for head, query in enumerate((weight(f"{at}self_attn.q_proj") @ x).view(heads, size)):
                group = head // (heads // groups)
                asked = turned(query, position + number)
                shares = torch.softmax(torch.stack([asked @ each[group] for each in keys]) / math.sqrt(size), dim=0)
                mixed.append(sum(share * each[group] for share, each in zip(shares, values, strict=True)))
            y = block[number] + weight(f"{at}self_attn.o_proj") @ torch.cat(mixed)
            inner = norm(y, weight(f"{at}post_attention_layernorm"))
            gate = weight(f"{at}mlp.gate_proj") @ inner
            block[number] = y + weight(f"{at}mlp.down_proj") @ (
                gate * torch.sigmoid(gate) * (weight(f"{at}mlp.up_proj") @ inner)
            )
    return torch.stack([norm(x, weight("norm")) for x in block[1:]])
