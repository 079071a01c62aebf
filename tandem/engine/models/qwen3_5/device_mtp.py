"""The layer of Qwen3.5 that predicts one token more, on a device: a `DraftLayer` beside `DeviceQwen35` (ENG-052).

It computes what `mtp.py` does. Its passes are eager and their states stay on the device; only logits come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.kernels.attention import chunk_attention
from tandem.engine.kernels.rotary import rotary_table
from tandem.engine.models.kv import KVCache
from tandem.engine.models.matrix import Matrix
from tandem.engine.models.qwen3_5.device import DeviceQwen35
from tandem.engine.models.qwen3_5.device_layers import DeviceAttention, DeviceLayer, Pass
from tandem.engine.models.qwen3_5.mtp_parts import MtpParts
from tandem.engine.models.rotary import inverse_frequencies

__all__ = ["DeviceMtp"]


class DeviceMtp:
    """A `DraftLayer`. The norms' weights are in fp32."""

    def __init__(self, model: DeviceQwen35, parts: MtpParts[DeviceLayer]) -> None:
        if not isinstance(parts.layer.mixer, DeviceAttention):
            raise TypeError("the drafting layer has full attention")
        config = model.config
        self._model = model
        self._parts = parts
        self._layer = parts.layer
        self._attention = parts.layer.mixer
        self._eps = config.rms_norm_eps
        turned = int(config.head_dim * config.partial_rotary_factor)
        frequencies = inverse_frequencies(turned, config.rope_theta, config.rope_scaling)
        self._frequencies = frequencies.to(model.placement.device)

    @property
    def nbytes(self) -> int:
        norms_bytes = sum(norm.nbytes for norm in (*self._parts.norms, *self._attention.norms))
        return sum(matrix.nbytes for matrix in self._matrices()) + norms_bytes

    @property
    def formats(self) -> Mapping[str, int]:
        return Counter(matrix.format for matrix in self._matrices())

    def new_cache(self, max_len: int) -> KVCache:
        config = self._model.config
        return KVCache(1, config.num_key_value_heads, max_len, config.head_dim, self._model.placement)

    def keep(self, ids: Tensor, hidden: Tensor, start: int, cache: KVCache) -> None:
        self._attended(ids, hidden, start, cache)

    def forward(self, ids: Tensor, hidden: Tensor, start: int, cache: KVCache) -> Tensor:
        x = self._attended(ids, hidden, start, cache)[-1:]
        x = x + self._layer.mlp(self._normed(x, self._layer.mlp_norm))
        return self._normed(x, self._parts.norm)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._model.logits(hidden)

    def _attended(self, ids: Tensor, hidden: Tensor, start: int, cache: KVCache) -> Tensor:
        """The residual stream (T, hidden) behind the attention, which has written the cache's rows."""
        table, end = self._model.embedding, start + len(ids)
        embedded = self._normed(functional.embedding(ids.to(table.device), table), self._parts.embedding_norm)
        x = self._parts.join(torch.cat((embedded, self._normed(hidden.to(table), self._parts.hidden_norm)), dim=1))
        rows = torch.arange(start, end, device=table.device)
        at = Pass(*rotary_table(rows, self._frequencies), rows, partial(chunk_attention, end))
        normed = self._normed(x, self._layer.mixer_norm)
        return x + self._attention(normed, cache.keys[0], cache.values[0], at)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        normed: Tensor = self._model.ops.rms_norm(x, weight, self._eps)
        return normed

    def _matrices(self) -> Iterator[Matrix]:
        yield from (self._parts.join, *self._layer.matrices)
