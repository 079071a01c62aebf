"""The Llama decoder in plain torch: RMS norm, rotary attention with grouped KV heads, SwiGLU (ENG-005).

The residual stream, the norms, the rotation, the attention and its cache are in fp32; a matrix computes in what its
format asks for. Shapes in comments: T rows of the chunk, L rows in the cache after it, H query heads, K kv heads, D the
size of a head.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.models.kv import KVCache, LayerRows
from tandem.engine.models.matrix import Matrix, Table
from tandem.engine.models.rotary import inverse_frequencies, rotate_, turns

__all__ = ["Layer", "LlamaModel"]


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one decoder layer."""

    attention_norm: Tensor  # (hidden)
    qkv: Matrix  # hidden to (H + 2 K) D: queries, keys, values; see `paired`
    out: Matrix  # H D to hidden
    mlp_norm: Tensor  # (hidden)
    gate_up: Matrix  # hidden to 2 inner: gate, up
    down: Matrix  # inner to hidden


class LlamaModel:
    """A `Model`. `embedding` is (vocab, hidden); `head` maps hidden to vocab and may be the same object."""

    anchor_grid = 1024

    def __init__(
        self, config: ModelConfig, *, embedding: Table, layers: list[Layer], norm: Tensor, head: Matrix
    ) -> None:
        self._config = config
        self._embedding = embedding
        self._layers = layers
        self._norm = norm
        self._head = head
        frequencies = inverse_frequencies(config.head_dim, config.rope_theta, config.rope_scaling)
        self._turns = turns(frequencies, config.max_position_embeddings)

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

    @property
    def formats(self) -> Mapping[str, int]:
        return Counter(matrix.format for matrix in self._matrices())

    def new_cache(self, max_len: int) -> KVCache:
        config = self._config
        return KVCache(config.num_hidden_layers, config.num_key_value_heads, max_len, config.head_dim)

    def forward(self, ids: Tensor, start: int, cache: KVCache) -> Tensor:
        end = start + ids.shape[0]
        turns, mask = self._turns[start:end], _causal(start, end)
        x = self._embedding.take(ids)  # (T, hidden)
        for layer, rows in zip(self._layers, cache.views(start, end), strict=True):
            heads = self._heads(layer, self._rms(x, layer.attention_norm), turns)
            x += layer.out(self._attention(heads, rows, mask))
            x += _mlp(layer, self._rms(x, layer.mlp_norm))
        return self._rms(x, self._norm)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden).float()

    def _matrices(self) -> Iterator[Matrix]:
        for layer in self._layers:
            yield from (layer.qkv, layer.out, layer.gate_up, layer.down)
        yield self._head

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        if x.shape[0] == 1:
            # Three small kernels in place of the six that torch takes on a CPU: decoding is made of calls.
            row = x[0]
            mean: float = torch.dot(row, row).item() / row.shape[0]
            return x * (weight * (1 / math.sqrt(mean + self._config.rms_norm_eps)))
        return functional.rms_norm(x, weight.shape, weight, self._config.rms_norm_eps)

    def _heads(self, layer: Layer, x: Tensor, turns: Tensor) -> Tensor:
        """Queries and keys, turned, and values: (T, H + 2 K, D) in fp32."""
        config = self._config
        heads = layer.qkv(x).float().view(x.shape[0], -1, config.head_dim)
        rotate_(heads[:, : config.num_attention_heads + config.num_key_value_heads], turns)
        return heads

    def _attention(self, heads: Tensor, rows: LayerRows, mask: Tensor | None) -> Tensor:
        """The query heads mixed over the cache, which takes the keys and values of `heads`: (T, H D)."""
        queries = self._config.num_attention_heads
        rows.new.copy_(heads[:, queries:])
        return _attend(heads[:, :queries], rows.keys, rows.values, mask)


def _mlp(layer: Layer, x: Tensor) -> Tensor:
    gate, up = layer.gate_up(x).chunk(2, dim=-1)
    return layer.down(functional.silu(gate).mul_(up))


def _causal(start: int, end: int) -> Tensor | None:
    """What rows start…end - 1 add to their scores over all rows below `end`: 0 where seen, -inf where not yet.

    None where no mask is needed: a single row sees everything, and a chunk from row 0 has torch's own causal form.
    """
    if start == 0 or end - start == 1:
        return None
    unseen = torch.full((end - start, end), -torch.inf)
    return unseen.triu_(start + 1)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax attention of (T, H, D) over (1, K, L, D), query heads grouped over the kv heads: (T, H D)."""
    rows, heads, size = q.shape
    if rows == 1:
        # The group's heads as rows of one kv head: each key is read once for all of them, and nothing is copied.
        grouped = q.view(1, k.shape[1], -1, size)
        return functional.scaled_dot_product_attention(grouped, k, v).reshape(1, -1)
    mixed = functional.scaled_dot_product_attention(
        q.transpose(0, 1)[None], k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=heads != k.shape[1]
    )
    return mixed[0].transpose(0, 1).reshape(rows, -1)
