"""What the drafting layer of Qwen3.5 consists of, wherever it runs, and how it is read (ENG-052)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from torch import Tensor

from tandem.engine.models.matrix import Matrix

__all__ = ["MTP_TENSORS", "MtpParts", "read_parts"]

MTP_TENSORS: Final = 15
"""Six of the attention, five of the rest of a layer, and the four of `MtpParts` beside it."""


class _Normed(Protocol):
    @property
    def mixer_norm(self) -> Tensor: ...

    @property
    def mlp_norm(self) -> Tensor: ...


LayerT = TypeVar("LayerT", bound=_Normed)
ReadT = TypeVar("ReadT", bound=_Normed, covariant=True)


@dataclass(frozen=True, slots=True)
class MtpParts(Generic[LayerT]):
    """Its weights. To the norms' weights the one of a zero-centred norm is added."""

    join: Matrix  # 2 hidden to hidden: embedding, state
    embedding_norm: Tensor  # (hidden)
    hidden_norm: Tensor  # (hidden)
    layer: LayerT
    norm: Tensor  # (hidden)

    @property
    def norms(self) -> tuple[Tensor, ...]:
        """All but the attention's own."""
        return (self.embedding_norm, self.hidden_norm, self.layer.mixer_norm, self.layer.mlp_norm, self.norm)


class _Reads(Protocol[ReadT]):
    """A reader of the layers of one place."""

    def matrix(self, name: str, rows: int, columns: int) -> Matrix: ...

    def centred(self, name: str, size: int) -> Tensor: ...

    def layer(self, at: str, *, linear: bool) -> ReadT: ...


def read_parts(reader: _Reads[LayerT], hidden: int) -> MtpParts[LayerT]:
    """The tensors `mtp.` of a checkpoint whose states have `hidden` numbers."""
    return MtpParts(
        join=reader.matrix("mtp.fc", hidden, 2 * hidden),
        embedding_norm=reader.centred("mtp.pre_fc_norm_embedding.weight", hidden),
        hidden_norm=reader.centred("mtp.pre_fc_norm_hidden.weight", hidden),
        layer=reader.layer("mtp.layers.0.", linear=False),
        norm=reader.centred("mtp.norm.weight", hidden),
    )
