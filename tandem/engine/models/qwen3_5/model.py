"""The Qwen3.5 decoder in plain torch: Gated DeltaNet and gated full attention by the config's layer list (ENG-006).

The residual stream, the norms, the recurrences and the attention are in fp32; a matrix computes in what its format asks
for. A chunk of rows goes through the chunked form of the recurrence, a single row through its definition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.kernels.rotary import axes_of_pairs
from tandem.engine.models.kv import LayerRows
from tandem.engine.models.layers import behind, causal, rms, swiglu
from tandem.engine.models.matrix import Matrix, Table
from tandem.engine.models.model import Sight
from tandem.engine.models.qwen3_5.attention import GatedAttention
from tandem.engine.models.qwen3_5.delta import GatedDelta
from tandem.engine.models.recurrent import Recurrent
from tandem.engine.models.rotary import inverse_frequencies, turns
from tandem.engine.models.state import State

__all__ = ["Layer", "Qwen35Model"]


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one decoder layer. To the norms' weights the one of a zero-centred norm is added."""

    mixer_norm: Tensor  # (hidden)
    mixer: GatedAttention | GatedDelta
    mlp_norm: Tensor  # (hidden)
    gate_up: Matrix  # hidden to 2 inner: gate, up
    down: Matrix  # inner to hidden


class Qwen35Model:
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
        turned = int(config.head_dim * config.partial_rotary_factor)
        frequencies = inverse_frequencies(turned, config.rope_theta, config.rope_scaling)
        # A text's position is the same number on all rotary axes, so their sections make no difference to it.
        self._turns = turns(frequencies, config.max_position_embeddings)
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
        }

    @property
    def formats(self) -> Mapping[str, int]:
        layers = (matrix for layer in self._layers for matrix in (*layer.mixer.matrices, layer.gate_up, layer.down))
        return Counter(matrix.format for matrix in (*layers, self._head))

    def new_state(self, max_len: int) -> State:
        return State.of(self._config, max_len)

    def forward(self, ids: Tensor, start: int, state: State) -> Tensor:
        offset = state.standing_at(start).offset
        turns = self._turns[start + offset : start + offset + ids.shape[0]]
        return self._forward(self._embedding.take(ids), turns, start, state, offset)

    def forward_seen(self, ids: Tensor, start: int, state: State, sight: Sight) -> Tensor:
        x = self._embedding.take(ids)
        x[sight.at] = sight.rows.float()
        # Of each pair of a row the turn that belongs to its axis' position: the very numbers that text has.
        pairs = torch.arange(len(self._axes))
        turns = self._turns[sight.positions[self._axes].t(), 0, pairs][:, None]
        offset = int(sight.positions[:, -1].max()) + 1 - (start + len(ids))
        return self._forward(x, turns, start, state, offset)

    def _forward(self, x: Tensor, turns: Tensor, start: int, state: State, offset: int) -> Tensor:
        """Read embeddings (T, hidden), which are written over; text behind them stands `offset` off its rows."""
        end, after = start + x.shape[0], []
        before = iter(state.standing_at(start).layers)

        def recur(mixer: GatedDelta, x: Tensor) -> Tensor:
            mixed, memory = mixer(x, next(before))
            after.append(memory)
            return mixed

        hidden = self._read(x, turns, causal(start, end), state.kv.views(start, end), recur)
        state.put_back(Recurrent(end, tuple(after), offset))
        return hidden

    def verify(self, ids: Tensor, parents: Tensor, start: int, state: State) -> Tensor:
        records = []
        stood = state.standing_at(start)
        before = iter(stood.layers)

        def recur(mixer: GatedDelta, x: Tensor) -> Tensor:
            mixed, kept = mixer.verify(x, next(before), parents)
            records.append(kept)
            return mixed

        positions, mask = behind(parents, start)
        cache = state.kv.views(start, start + ids.shape[0])
        hidden = self._read(self._embedding.take(ids), self._turns[positions + stood.offset], mask, cache, recur)
        state.verified(start, tuple(records))
        return hidden

    def _read(
        self,
        x: Tensor,
        turns: Tensor,
        mask: Tensor | None,
        cache: list[LayerRows],
        recur: Callable[[GatedDelta, Tensor], Tensor],
    ) -> Tensor:
        """All layers over the embeddings (T, hidden) of one chunk or tree, which are written over; `recur` takes each
        recurrent layer, in their order.
        """
        eps, rows = self._config.rms_norm_eps, iter(cache)
        for layer in self._layers:
            normed = rms(x, layer.mixer_norm, eps)
            if isinstance(layer.mixer, GatedDelta):
                x += recur(layer.mixer, normed)
            else:
                x += layer.mixer(normed, next(rows), turns, mask)
            x += swiglu(rms(x, layer.mlp_norm, eps), layer.gate_up, layer.down)
        return rms(x, self._norm, eps)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden).float()

    def _norms(self) -> list[Tensor]:
        norms = [self._norm]
        for layer in self._layers:
            inner = layer.mixer.norms if isinstance(layer.mixer, GatedAttention) else layer.mixer.norm
            norms += [layer.mixer_norm, inner, layer.mlp_norm]
        return norms
