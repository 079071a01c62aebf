"""Where tensors come from: one interface over every checkpoint format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch

__all__ = ["Weights"]


class Weights(Protocol):
    """Tensors by canonical name: `embed_tokens.weight`, `layers.N.self_attn.q_proj.weight`, `norm.weight`,
    `lm_head.weight`, in Hugging Face's layout (rotary halves, not interleaved pairs) (ENG-019).
    """

    def names(self) -> Iterable[str]:
        """The canonical names there are."""

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The tensor on the CPU as `dtype`. `CheckpointError` names a missing or misshapen one (ENG-020)."""
