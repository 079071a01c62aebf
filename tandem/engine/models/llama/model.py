"""The Llama decoder in plain torch: RMS norm, rotary attention with grouped KV heads, SwiGLU (ENG-005).

The residual stream, the norms, the rotation, the attention and its cache are in fp32; a matrix computes in what its
format asks for. Shapes in comments: T rows of the chunk, L rows in the cache after it, H query heads, K kv heads, D the
size of a head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.models.kv import LayerRows
from tandem.engine.models.layers import attend, behind, causal, rms, swiglu
from tandem.engine.models.matrix import Matrix, Table
from tandem.engine.models.rotary import inverse_frequencies, rotate_, turns
from tandem.engine.models.state import State

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

    def new_state(self, max_len: int) -> State:
        return State.of(self._config, max_len)

    def forward(self, ids: Tensor, start: int, state: State) -> Tensor:
        end = start + ids.shape[0]
        state.settle()
        return self._read(ids, self._turns[start:end], causal(start, end), state.kv.views(start, end))

    def verify(self, ids: Tensor, parents: Tensor, start: int, state: State) -> Tensor:
        state.settle()
        positions, mask = behind(parents, start)
        hidden = self._read(ids, self._turns[positions], mask, state.kv.views(start, start + ids.shape[0]))
        state.verified(start, ())
        return hidden

    def _read(self, ids: Tensor, turns: Tensor, mask: Tensor | None, cache: list[LayerRows]) -> Tensor:
        x = self._embedding.take(ids)  # (T, hidden)
        for layer, rows in zip(self._layers, cache, strict=True):
            heads = self._heads(layer, self._rms(x, layer.attention_norm), turns)
            x += layer.out(self._attention(heads, rows, mask))
            x += swiglu(self._rms(x, layer.mlp_norm), layer.gate_up, layer.down)
        return self._rms(x, self._norm)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden).float()

    def _matrices(self) -> Iterator[Matrix]:
        for layer in self._layers:
            yield from (layer.qkv, layer.out, layer.gate_up, layer.down)
        yield self._head

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms(x, weight, self._config.rms_norm_eps)

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
        return attend(heads[:, :queries], rows.keys, rows.values, mask)
