"""The layer of Qwen3.5 that predicts one token more: a `DraftLayer` (ENG-052).

A row joins the norms of an embedding and of a hidden state, embedding first, and reads one decoder layer with full
attention. Rows before the last are asked for nothing but their keys and values, which need neither attention nor MLP:
only the last row of a forward goes through the whole layer.

Shapes in comments: T rows of a forward, H query heads, D the size of a head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from tandem.engine.models.formats import copies
from tandem.engine.models.kv import KVCache, LayerRows
from tandem.engine.models.layers import rms, swiglu
from tandem.engine.models.matrix import Matrix
from tandem.engine.models.model import SharingModel
from tandem.engine.models.qwen3_5.attention import GatedAttention
from tandem.engine.models.qwen3_5.model import Layer
from tandem.engine.models.qwen3_5.mtp_parts import MtpParts

__all__ = ["MtpLayer"]


class _Kept(NamedTuple):
    """Rows whose keys and values the cache has."""

    x: Tensor  # (T, hidden): the residual stream
    queries: Tensor  # (T, H, D)
    gates: Tensor  # (T, H D)
    rows: LayerRows


class MtpLayer:
    """A `DraftLayer`."""

    def __init__(self, model: SharingModel, parts: MtpParts[Layer]) -> None:
        if not isinstance(parts.layer.mixer, GatedAttention):
            raise TypeError("the drafting layer has full attention")
        self._model = model
        self._parts = parts
        self._layer = parts.layer
        self._attention = parts.layer.mixer
        self._eps = model.config.rms_norm_eps

    @property
    def nbytes(self) -> int:
        norms_bytes = sum(norm.nbytes for norm in (*self._parts.norms, self._attention.norms))
        kept = sum(copies(self._matrices()).values())
        return sum(matrix.nbytes for matrix in self._matrices()) + kept + norms_bytes

    @property
    def formats(self) -> Mapping[str, int]:
        return Counter(matrix.format for matrix in self._matrices())

    def new_cache(self, max_len: int) -> KVCache:
        config = self._model.config
        return KVCache(1, config.num_key_value_heads, max_len, config.head_dim)

    def keep(self, ids: Tensor, hidden: Tensor, start: int, cache: KVCache) -> None:
        self._keep(ids, hidden, start, cache)

    def forward(self, ids: Tensor, hidden: Tensor, start: int, cache: KVCache) -> Tensor:
        kept, layer = self._keep(ids, hidden, start, cache), self._layer
        x = kept.x[-1:] + self._attention.mix(kept.queries[-1:], kept.gates[-1:], kept.rows, None)
        x += swiglu(rms(x, layer.mlp_norm, self._eps), layer.gate_up, layer.down)
        return rms(x, self._parts.norm, self._eps)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._model.logits(hidden)

    def _keep(self, ids: Tensor, hidden: Tensor, start: int, cache: KVCache) -> _Kept:
        embedded = rms(self._model.embed(ids), self._parts.embedding_norm, self._eps)
        joined = torch.cat((embedded, rms(hidden, self._parts.hidden_norm, self._eps)), dim=1)
        x, end = self._parts.join(joined).float(), start + len(ids)
        [rows] = cache.views(start, end)
        normed = rms(x, self._layer.mixer_norm, self._eps)
        queries, gates = self._attention.keep(normed, rows, self._model.turns_of(start, end))
        return _Kept(x, queries, gates, rows)

    def _matrices(self) -> Iterator[Matrix]:
        yield from (self._parts.join, *self._attention.matrices, self._layer.gate_up, self._layer.down)
