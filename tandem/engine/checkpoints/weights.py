"""Where tensors come from: one interface over every checkpoint format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import torch

from tandem.engine.checkpoints.fp8 import Fp8Blocks, Fp8Rows
from tandem.engine.checkpoints.nvfp4 import Nvfp4
from tandem.engine.errors import CheckpointError

__all__ = ["Asked", "Catalogue", "Coded", "CodedWeights", "Stored", "StoredWeights", "Weights", "require_shape"]

Coded: TypeAlias = Fp8Blocks | Fp8Rows | Nvfp4
"""A matrix as it is stored, in codes and scales."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How a tensor lies on disk: its name there, its file, element or block type, shape and size in bytes.

    Of a matrix in codes the shape is that of its values, the size that of codes and scales together.
    """

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

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> torch.Tensor:
        """Rows `start` to below `stop` of a matrix, in fp32 and not to be written to; errors as for `tensor`."""


@runtime_checkable
class CodedWeights(Weights, Protocol):
    """Weights some of which may be in codes."""

    def coded(self, name: str) -> Coded | None:
        """A matrix as it is stored; None where its values themselves are. It may be mapped from the file."""


class StoredWeights(CodedWeights, Protocol):
    """Weights of a checkpoint on disk."""

    def stored(self) -> Mapping[str, Stored]:
        """How each tensor lies on disk, by canonical name; for the load report (ENG-031)."""

    def skipped(self) -> Mapping[str, Stored]:
        """What the layout's rules leave out, by its name on disk."""

    def close(self) -> None:
        """Let go of the files; no tensor can be read any more."""


class Catalogue:
    """The tensors of a checkpoint by canonical name, whatever its format; `origin` is how messages call it."""

    def __init__(self, origin: Path) -> None:
        self._origin = origin
        self._stored: dict[str, Stored] = {}
        self._skipped: dict[str, Stored] = {}

    def names(self) -> Iterable[str]:
        """The canonical names."""
        return self._stored.keys()

    def stored(self) -> Mapping[str, Stored]:
        """How each tensor lies on disk."""
        return self._stored

    def skipped(self) -> Mapping[str, Stored]:
        """What the layout's rules leave out."""
        return self._skipped

    def _found(self, name: str, shape: tuple[int, ...]) -> Stored:
        """`CheckpointError` where the tensor is missing or has another shape."""
        stored = self._stored.get(name)
        if stored is None:
            raise CheckpointError(f"{self._origin}: tensor {name} is missing")
        require_shape(stored, shape)
        return stored


@dataclass(slots=True)
class Asked:
    """`Weights` that remember which of them were asked for."""

    weights: Weights
    asked: set[str] = field(default_factory=set)

    def names(self) -> Iterable[str]:
        return self.weights.names()

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        self.asked.add(name)
        return self.weights.tensor(name, shape, dtype)

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> torch.Tensor:
        self.asked.add(name)
        return self.weights.rows(name, shape, start, stop)

    def coded(self, name: str) -> Coded | None:
        self.asked.add(name)
        return self.weights.coded(name) if isinstance(self.weights, CodedWeights) else None

    def left(self) -> list[str]:
        """What nobody has asked for."""
        return [name for name in self.weights.names() if name not in self.asked]
