"""The Llama decoder in plain torch: RMS norm, rotary attention with grouped KV heads, SwiGLU (ENG-005).

The residual stream, the norms, the rotation, the attention and its cache are in fp32; a matrix computes in what its
format asks for. Shapes in comments: T rows of the chunk, L rows in the cache after it, H query heads, K kv heads, D the
size of a head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.models.formats import copies
from tandem.engine.models.kv import LayerRows
from tandem.engine.models.layers import attend, behind, causal, joined, parted, rms, rms_apart, swiglu
from tandem.engine.models.matrix import Matrix, Table
from tandem.engine.models.model import Drafts
from tandem.engine.models.rotary import Turns, inverse_frequencies, rotate_
from tandem.engine.models.state import State
from tandem.engine.models.tapped import Taps

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
    """A `TappedModel`. `embedding` is (vocab, hidden); `head` maps hidden to vocab and may be the same object."""

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
        self._turns = Turns(frequencies)
        self.taps: Taps | None = None

    @property
    def config(self) -> ModelConfig:
        return self._config

    @property
    def nbytes(self) -> Mapping[str, int]:
        attention = sum(layer.qkv.nbytes + layer.out.nbytes for layer in self._layers)
        mlp = sum(layer.gate_up.nbytes + layer.down.nbytes for layer in self._layers)
        norms = self._norm.nbytes + sum(layer.attention_norm.nbytes + layer.mlp_norm.nbytes for layer in self._layers)
        head = 0 if self._config.tie_word_embeddings else self._head.nbytes
        groups = {"embedding": self._embedding.nbytes, "attention": attention, "mlp": mlp, "norms": norms, "head": head}
        return groups | copies(self._matrices())

    @property
    def formats(self) -> Mapping[str, int]:
        return Counter(matrix.format for matrix in self._matrices())

    def new_state(self, max_len: int) -> State:
        return State.of(self._config, max_len)

    def forward(self, ids: Tensor, start: int, state: State) -> Tensor:
        end = start + ids.shape[0]
        state.settle()
        turns, mask, cache = self._turns.upto(end)[start:end], causal(start, end), iter(state.kv.views(start, end))
        return self._read(ids, self._rms, lambda heads: self._attention(heads, turns, next(cache), mask))

    def verify(self, ids: Tensor, parents: Tensor, start: int, state: State) -> Tensor:
        return self.verify_joint([Drafts(ids, parents, start, state)])

    def verify_joint(self, trees: Sequence[Drafts]) -> Tensor:
        counts = [len(tree.ids) for tree in trees]
        apart = [self._tree_attention(tree) for tree in trees]

        def norm(x: Tensor, weight: Tensor) -> Tensor:
            return rms_apart(x, counts, weight, self._config.rms_norm_eps)

        def mix(projected: Tensor) -> Tensor:
            return joined([over(rows) for over, rows in zip(apart, parted(projected, counts), strict=True)])

        hidden = self._read(joined([tree.ids for tree in trees]), norm, mix)
        for tree in trees:
            tree.state.verified(tree.start, ())
        return hidden

    def _tree_attention(self, tree: Drafts) -> Callable[[Tensor], Tensor]:
        """The attention of one sequence's rows, layer after layer."""
        tree.state.settle()
        positions, mask = behind(tree.parents, tree.start)
        end = tree.start + len(tree.ids)
        turns, cache = self._turns.upto(end)[positions], iter(tree.state.kv.views(tree.start, end))
        return lambda projected: self._attention(projected, turns, next(cache), mask)

    def _read(self, ids: Tensor, norm: Callable[[Tensor, Tensor], Tensor], mix: Callable[[Tensor], Tensor]) -> Tensor:
        """All layers; `mix` takes the (T, (H + 2 K) D) of each in their order, and gives (T, H D)."""
        x = self._embedding.take(ids)  # (T, hidden)
        for at, layer in enumerate(self._layers):
            x += layer.out(mix(layer.qkv(norm(x, layer.attention_norm)).float()))
            x += swiglu(norm(x, layer.mlp_norm), layer.gate_up, layer.down)
            if self.taps is not None:
                self.taps.after(at, x)
        return norm(x, self._norm)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden).float()

    def embed(self, ids: Tensor) -> Tensor:
        return self._embedding.take(ids)

    def _matrices(self) -> Iterator[Matrix]:
        for layer in self._layers:
            yield from (layer.qkv, layer.out, layer.gate_up, layer.down)
        yield self._head

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms(x, weight, self._config.rms_norm_eps)

    def _attention(self, projected: Tensor, turns: Tensor, rows: LayerRows, mask: Tensor | None) -> Tensor:
        """The query heads mixed over the cache, which takes the keys and values of `projected`: (T, H D).

        `projected` is (T, (H + 2 K) D) in fp32, written over: its queries and keys are turned.
        """
        config, queries = self._config, self._config.num_attention_heads
        heads = projected.view(projected.shape[0], -1, config.head_dim)
        rotate_(heads[:, : queries + config.num_key_value_heads], turns)
        rows.new.copy_(heads[:, queries:])
        return attend(heads[:, :queries], rows.keys, rows.values, mask)
