"""Where tensors come from: one interface over every checkpoint format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from tandem.engine.errors import CheckpointError

__all__ = ["Catalogue", "Stored", "StoredWeights", "Weights", "require_shape"]


@dataclass(frozen=True, slots=True)
class Stored:
    """How a tensor lies on disk: its name there, its file, element or block type, shape and size in bytes."""

    name: str
    file: str
    format: str
    shape: tuple[int, ...]
    nbytes: int


def require_shape(stored: Stored, shape: tuple[int, ...]) -> None:
    """`CheckpointError` where the tensor has another shape than `shape`."""
    if stored.shape != shape:
        raise CheckpointError(
            f"{stored.file}: tensor {stored.name} has shape {list(stored.shape)}, the config asks for {list(shape)}"
        )


class Weights(Protocol):
    """Tensors by canonical name: `embed_tokens.weight`, `layers.N.self_attn.q_proj.weight`, `norm.weight`,
    `lm_head.weight`, in Hugging Face's layout (rotary halves, not interleaved pairs) (ENG-019).
    """

    def names(self) -> Iterable[str]:
        """The canonical names there are."""

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The tensor on the CPU as `dtype`. `CheckpointError` names a missing or misshapen one (ENG-020)."""


class StoredWeights(Weights, Protocol):
    """Weights of a checkpoint on disk."""

    def stored(self) -> Mapping[str, Stored]:
        """How each tensor lies on disk, by canonical name; for the load report (ENG-031)."""


class Catalogue:
    """The tensors of a checkpoint by canonical name, whatever its format; `origin` is how messages call it."""

    def __init__(self, origin: Path) -> None:
        self._origin = origin
        self._stored: dict[str, Stored] = {}

    def names(self) -> Iterable[str]:
        """The canonical names."""
        return self._stored.keys()

    def stored(self) -> Mapping[str, Stored]:
        """How each tensor lies on disk."""
        return self._stored

    def _found(self, name: str, shape: tuple[int, ...]) -> Stored:
        """`CheckpointError` where the tensor is missing or has another shape."""
        stored = self._stored.get(name)
        if stored is None:
            raise CheckpointError(f"{self._origin}: tensor {name} is missing")
        require_shape(stored, shape)
        return stored
