"""The Qwen3.5 decoder in plain torch: Gated DeltaNet and gated full attention by the config's layer list (ENG-006).

The residual stream, the norms, the recurrences and the attention are in fp32; a matrix computes in what its format asks
for. A chunk of rows goes through the chunked form of the recurrence, a single row through its definition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.kernels.rotary import axes_of_pairs
from tandem.engine.models.formats import copies
from tandem.engine.models.layers import behind, causal, joined, rms, rms_apart, swiglu
from tandem.engine.models.matrix import Head, Matrix, Table
from tandem.engine.models.model import Drafts, Sight
from tandem.engine.models.qwen3_5.attention import GatedAttention, Over
from tandem.engine.models.qwen3_5.delta import GatedDelta
from tandem.engine.models.recurrent import LayerMemory, LayerRecords, Recurrent
from tandem.engine.models.rotary import Turns, inverse_frequencies
from tandem.engine.models.state import State
from tandem.engine.models.tapped import Taps

__all__ = ["Layer", "Qwen35Model"]


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one decoder layer. To the norms' weights the one of a zero-centred norm is added."""

    mixer_norm: Tensor  # (hidden)
    mixer: GatedAttention | GatedDelta
    mlp_norm: Tensor  # (hidden)
    gate_up: Matrix  # hidden to 2 inner: gate, up
    down: Matrix  # inner to hidden


class _Apart(NamedTuple):
    """What is one sequence's own in a joint verify, layer after layer."""

    over: Iterator[Over]
    before: Iterator[LayerMemory]
    records: list[LayerRecords]


class Qwen35Model:
    """A `TappedModel`. `embedding` is (vocab, hidden); `head` maps hidden to vocab and may be the same object."""

    anchor_grid = 1024

    def __init__(self, config: ModelConfig, *, embedding: Table, layers: list[Layer], norm: Tensor, head: Head) -> None:
        self._config = config
        self._embedding = embedding
        self._layers = layers
        self._norm = norm
        self._head = head
        self.taps: Taps | None = None
        turned = int(config.head_dim * config.partial_rotary_factor)
        frequencies = inverse_frequencies(turned, config.rope_theta, config.rope_scaling)
        # A text's position is the same number on all rotary axes, so their sections make no difference to it.
        self._turns = Turns(frequencies)
        self._axes = axes_of_pairs(turned // 2, config.mrope_section)  # (pairs): the axis each follows in an image

    @property
    def config(self) -> ModelConfig:
        return self._config

    @property
    def nbytes(self) -> Mapping[str, int]:
        attention = sum(layer.mixer.nbytes for layer in self._layers if isinstance(layer.mixer, GatedAttention))
        recurrent = sum(layer.mixer.nbytes for layer in self._layers if isinstance(layer.mixer, GatedDelta))
        mlp = sum(layer.gate_up.nbytes + layer.down.nbytes for layer in self._layers)
        head = 0 if self._config.tie_word_embeddings else self._head.nbytes
        return {
            "embedding": self._embedding.nbytes,
            "attention": attention,
            "recurrent": recurrent,
            "mlp": mlp,
            "norms": sum(norm.nbytes for norm in self._norms()),
            "head": head,
            **copies(self._matrices()),
        }

    @property
    def formats(self) -> Mapping[str, int]:
        return Counter(matrix.format for matrix in self._matrices())

    def new_state(self, max_len: int) -> State:
        return State.of(self._config, max_len)

    def forward(self, ids: Tensor, start: int, state: State) -> Tensor:
        offset = state.standing_at(start).offset
        at = start + offset
        turns = self._turns.upto(at + ids.shape[0])[at : at + ids.shape[0]]
        return self._forward(self._embedding.take(ids), turns, start, state, offset)

    def forward_seen(self, ids: Tensor, start: int, state: State, sight: Sight) -> Tensor:
        x = self._embedding.take(ids)
        x[sight.at] = sight.rows.float()
        # Of each pair of a row the turn that belongs to its axis' position: the very numbers that text has.
        pairs = torch.arange(len(self._axes))
        # No position is higher than its row, for an image takes at most as many positions as rows.
        table = self._turns.upto(start + len(ids))
        turns = table[sight.positions[self._axes].t(), 0, pairs][:, None]
        offset = int(sight.positions[:, -1].max()) + 1 - (start + len(ids))
        return self._forward(x, turns, start, state, offset)

    def _forward(self, x: Tensor, turns: Tensor, start: int, state: State, offset: int) -> Tensor:
        """Read embeddings (T, hidden), which are written over; text behind them stands `offset` off its rows."""
        end, after = start + x.shape[0], []
        before, mask = iter(state.standing_at(start).layers), causal(start, end)
        cache = iter(state.kv.views(start, end))

        def mix(mixer: GatedAttention | GatedDelta, x: Tensor) -> Tensor:
            if isinstance(mixer, GatedAttention):
                return mixer(x, Over(next(cache), turns, mask))
            mixed, memory = mixer(x, next(before))
            after.append(memory)
            return mixed

        hidden = self._read(x, self._rms, mix)
        state.put_back(Recurrent(end, tuple(after), offset))
        return hidden

    def verify(self, ids: Tensor, parents: Tensor, start: int, state: State) -> Tensor:
        return self.verify_joint([Drafts(ids, parents, start, state)])

    def verify_joint(self, trees: Sequence[Drafts]) -> Tensor:
        apart = [self._apart(tree) for tree in trees]
        parents, counts = [tree.parents for tree in trees], [len(tree.ids) for tree in trees]

        def mix(mixer: GatedAttention | GatedDelta, x: Tensor) -> Tensor:
            if isinstance(mixer, GatedAttention):
                return mixer.joint(x, [next(each.over) for each in apart])
            mixed, kept = mixer.verify(x, [next(each.before) for each in apart], parents)
            for each, records in zip(apart, kept, strict=True):
                each.records.append(records)
            return mixed

        def norm(x: Tensor, weight: Tensor) -> Tensor:
            return rms_apart(x, counts, weight, self._config.rms_norm_eps)

        hidden = self._read(self._embedding.take(joined([tree.ids for tree in trees])), norm, mix)
        for tree, each in zip(trees, apart, strict=True):
            tree.state.verified(tree.start, tuple(each.records))
        return hidden

    def _apart(self, tree: Drafts) -> _Apart:
        stood, end = tree.state.standing_at(tree.start), tree.start + len(tree.ids)
        positions, mask = behind(tree.parents, tree.start)
        turns, cache = self._turns.upto(end)[positions + stood.offset], tree.state.kv.views(tree.start, end)
        return _Apart(iter([Over(rows, turns, mask) for rows in cache]), iter(stood.layers), [])

    def _read(
        self,
        x: Tensor,
        norm: Callable[[Tensor, Tensor], Tensor],
        mix: Callable[[GatedAttention | GatedDelta, Tensor], Tensor],
    ) -> Tensor:
        """All layers over embeddings (T, hidden), which are written over; `mix` takes their mixers in their order."""
        for at, layer in enumerate(self._layers):
            x += mix(layer.mixer, norm(x, layer.mixer_norm))
            x += swiglu(norm(x, layer.mlp_norm), layer.gate_up, layer.down)
            if self.taps is not None:
                self.taps.after(at, x)
        return norm(x, self._norm)

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms(x, weight, self._config.rms_norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden).float()

    def embed(self, ids: Tensor) -> Tensor:
        return self._embedding.take(ids)

    @property
    def head(self) -> Table:
        return self._head

    def turns_of(self, start: int, end: int) -> Tensor:
        return self._turns.upto(end)[start:end]

    def _matrices(self) -> Iterator[Matrix]:
        for layer in self._layers:
            yield from (*layer.mixer.matrices, layer.gate_up, layer.down)
        yield self._head

    def _norms(self) -> list[Tensor]:
        norms = [self._norm]
        for layer in self._layers:
            inner = layer.mixer.norms if isinstance(layer.mixer, GatedAttention) else layer.mixer.norm
            norms += [layer.mixer_norm, inner, layer.mlp_norm]
        return norms
