"""Norms, rounded where the reference rounds (ENG-008). The mean of squares and the root are in fp32 in all of them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["gated_rms_norm", "rms_norm"]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`x` (…, D) over its root mean square, times `weight` (D), rounded once to the type of `x`.

    `weight` is the whole factor: a checkpoint of `qwen3_5` keeps it less 1, and its loader adds the 1 in fp32.
    """
    return (_over_rms(x, eps) * weight.float()).to(x.dtype)


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The norm of `x` (…, D) times `weight` (D), times silu(`gate`).

    Three roundings to the type of `x`: the normed value, its product with the weight, and, after a gate in fp32, the
    result. To keep the product in fp32 gives other answers.
    """
    normed = _over_rms(x, eps).to(x.dtype)
    scaled = weight.to(x.dtype) * normed
    return (scaled.float() * functional.silu(gate.float())).to(x.dtype)


def _over_rms(x: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
