"""The Llama decoder in plain torch, fp32: RMS norm, rotary attention with grouped KV heads, SwiGLU (ENG-005).

Shapes in comments: T rows of the chunk, L rows in the cache after it, H query heads, K kv heads, D head size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.models.kv import KVCache
from tandem.engine.models.matrix import Matrix
from tandem.engine.models.rotary import RotaryTable, inverse_frequencies, rotate, table

__all__ = ["Layer", "LlamaModel"]


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one decoder layer."""

    attention_norm: Tensor  # (hidden)
    qkv: Matrix  # hidden to (H + 2 K) D: queries, keys, values
    out: Matrix  # H D to hidden
    mlp_norm: Tensor  # (hidden)
    gate_up: Matrix  # hidden to 2 inner: gate, up
    down: Matrix  # inner to hidden


class LlamaModel:
    """A `Model`. `embedding` is (vocab, hidden); `head` maps hidden to vocab and may share its memory."""

    anchor_grid = 1024

    def __init__(
        self, config: ModelConfig, *, embedding: Tensor, layers: list[Layer], norm: Tensor, head: Matrix
    ) -> None:
        self._config = config
        self._embedding = embedding
        self._layers = layers
        self._norm = norm
        self._head = head
        frequencies = inverse_frequencies(config.head_dim, config.rope_theta, config.rope_scaling)
        self._rotary = table(frequencies, config.max_position_embeddings)

    @property
    def config(self) -> ModelConfig:
        return self._config

    @property
    def nbytes(self) -> Mapping[str, int]:
        attention = sum(layer.qkv.nbytes + layer.out.nbytes for layer in self._layers)
        mlp = sum(layer.gate_up.nbytes + layer.down.nbytes for layer in self._layers)
        norms = self._norm.nbytes + sum(layer.attention_norm.nbytes + layer.mlp_norm.nbytes for layer in self._layers)
        head = 0 if self._config.tie_word_embeddings else self._head.nbytes
        return {"embedding": self._embedding.nbytes, "attention": attention, "mlp": mlp, "norms": norms, "head": head}

    def new_cache(self, max_len: int) -> KVCache:
        config = self._config
        return KVCache(config.num_hidden_layers, config.num_key_value_heads, max_len, config.head_dim)

    def forward(self, ids: Tensor, start: int, cache: KVCache) -> Tensor:
        end = start + ids.shape[0]
        cos, sin = self._rotary
        rotary = cos[start:end], sin[start:end]
        mask = _causal(start, end)
        x = self._embedding[ids]
        for index, layer in enumerate(self._layers):
            x = x + self._attention(index, layer, self._rms(x, layer.attention_norm), start, rotary, mask, cache)
            x = x + _mlp(layer, self._rms(x, layer.mlp_norm))
        return self._rms(x, self._norm)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden).float()

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, weight.shape, weight, self._config.rms_norm_eps)

    def _attention(
        self, index: int, layer: Layer, x: Tensor, start: int, rotary: RotaryTable, mask: Tensor | None, cache: KVCache
    ) -> Tensor:
        rows, queries, kv = x.shape[0], self._config.num_attention_heads, self._config.num_key_value_heads
        heads = layer.qkv(x).view(rows, queries + 2 * kv, -1).transpose(0, 1)  # (H + 2 K, T, D)
        turned = rotate(heads[: queries + kv], *rotary)
        keys, values = cache.put(index, start, turned[queries:], heads[queries + kv :])  # (K, L, D)
        mixed = _attend(turned[:queries], keys, values, mask)
        return layer.out(mixed.transpose(0, 1).reshape(rows, -1))


def _mlp(layer: Layer, x: Tensor) -> Tensor:
    gate, up = layer.gate_up(x).chunk(2, dim=-1)
    return layer.down(functional.silu(gate) * up)


def _causal(start: int, end: int) -> Tensor | None:
    """What rows start…end - 1 add to their scores over all rows below `end`: 0 where seen, -inf where not yet.

    None where no mask is needed: a single row sees everything, and a chunk from row 0 has torch's own causal form.
    """
    if start == 0 or end - start == 1:
        return None
    unseen = torch.full((end - start, end), -torch.inf)
    return unseen.triu_(start + 1)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax attention of (H, T, D) over (K, L, D), query heads grouped over the kv heads: (H, T, D)."""
    heads, rows, size = q.shape
    if rows == 1:
        # The group's heads as rows of one kv head: each key is read once for all of them, and nothing is copied.
        grouped = q.reshape(1, k.shape[0], -1, size)
        return functional.scaled_dot_product_attention(grouped, k[None], v[None]).view(heads, 1, size)
    return functional.scaled_dot_product_attention(
        q[None], k[None], v[None], attn_mask=mask, is_causal=mask is None, enable_gqa=heads != k.shape[0]
    )[0]
