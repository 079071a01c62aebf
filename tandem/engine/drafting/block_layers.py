"""The weights of a block drafter and its one pass (ENG-054).

What the target's tapped layers left of a row is fused into one context row, whose keys and values every layer keeps. A
block is the embedding of the newest token and as many times one learned row as it has slots; its rows see the whole
context and each other, so one pass fills all slots. Embedding and head are the target's. Related: DFlash
(arXiv:2602.06036), block diffusion over a target's features; EAGLE-3 (arXiv:2503.01840), features of several layers.

Shapes in comments: T rows, H query heads, K kv heads, D the size of a head, N tapped layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tandem.engine.checkpoints.block import BlockConfig
from tandem.engine.checkpoints.weights import Weights
from tandem.engine.models.formats import CpuWeights, matrix
from tandem.engine.models.kv import KVCache, LayerRows
from tandem.engine.models.layers import attend, rms, swiglu
from tandem.engine.models.matrix import Matrix
from tandem.engine.models.model import Progress
from tandem.engine.models.reader import Reader
from tandem.engine.models.rotary import Turns, inverse_frequencies, paired, rotate_

__all__ = ["BlockLayers", "load_block"]

_LAYER_TENSORS, _OTHER_TENSORS = 9, 7


@dataclass(frozen=True, slots=True)
class _Layer:
    norm: Tensor  # (hidden)
    queries: Matrix  # hidden to H D, pairs side by side
    keys_values: Matrix  # hidden to 2 K D: keys, pairs side by side, and values
    out: Matrix  # H D to hidden
    mlp_norm: Tensor  # (hidden)
    gate_up: Matrix  # hidden to 2 inner
    down: Matrix  # inner to hidden


@dataclass(frozen=True, slots=True)
class BlockLayers:
    """All of it, in fp32 but for the matrices."""

    config: BlockConfig
    tap_norms: Tensor  # (N, hidden)
    fuse: Matrix  # N hidden to hidden
    context_norm: Tensor  # (hidden)
    slot: Tensor  # (1, hidden)
    layers: tuple[_Layer, ...]
    norm: Tensor  # (hidden)
    before: Matrix  # hidden to rank: of the first token of a pair
    after: Matrix  # hidden to rank: of the second
    turns: Turns

    @property
    def nbytes(self) -> int:
        norms = [each for layer in self.layers for each in (layer.norm, layer.mlp_norm)]
        small = (self.tap_norms, self.context_norm, self.slot, self.norm, *norms)
        return sum(each.nbytes for each in small) + sum(each.nbytes for each in self._matrices())

    @property
    def formats(self) -> Mapping[str, int]:
        return Counter(each.format for each in self._matrices())

    def new_cache(self, window: int) -> KVCache:
        """Room for a window and the block behind it."""
        config = self.config
        rows = window + config.block_width + 1
        return KVCache(config.num_hidden_layers, config.num_key_value_heads, rows, config.head_dim)

    def keep(self, taps: Tensor, start: int, cache: KVCache) -> None:
        """Write the context's rows from `start` on: of taps (T, N hidden)."""
        eps, (rows, _), hidden = self.config.rms_norm_eps, taps.shape, self.config.hidden_size
        apart = taps.view(rows, -1, hidden).unbind(1)
        normed = [rms(each, weight, eps) for each, weight in zip(apart, self.tap_norms, strict=True)]
        context = rms(self.fuse(torch.cat(normed, dim=1)).float(), self.context_norm, eps)
        turns = self.turns.upto(start + rows)[start : start + rows]
        for layer, views in zip(self.layers, cache.views(start, start + rows), strict=True):
            self._write(layer, context, turns, views)

    def forward(self, newest: Tensor, slots: int, held: int, position: int, cache: KVCache) -> Tensor:
        """Hidden states (slots, hidden) behind the token with embedding `newest` (1, hidden), which stands at
        `position`; of the cache its first `held` rows are read, and those behind them are scratch.
        """
        config, eps, count = self.config, self.config.rms_norm_eps, slots + 1
        x = torch.cat((newest, self.slot.expand(slots, -1)))
        turns = self.turns.upto(position + count)[position : position + count]
        mask = torch.zeros(count, held + count)  # a block sees all of itself
        for layer, views in zip(self.layers, cache.views(held, held + count), strict=True):
            normed = rms(x, layer.norm, eps)
            queries = layer.queries(normed).float().view(count, -1, config.head_dim)
            rotate_(queries, turns)
            self._write(layer, normed, turns, views)
            x = x + layer.out(attend(queries, views.keys, views.values, mask))
            x = x + swiglu(rms(x, layer.mlp_norm, eps), layer.gate_up, layer.down)
        return rms(x[1:], self.norm, eps)

    def joins(self, newest: Tensor, candidates: Tensor) -> list[Tensor]:
        """What the bigram scorer says of each pair: (1, C) behind `newest` (1, hidden), then (C, C) from slot to slot
        of `candidates` (S, C, hidden).
        """
        slots, count, hidden = candidates.shape
        flat = candidates.reshape(-1, hidden)
        first, after = self.before(newest).float(), self.after(flat).float().view(slots, count, -1)
        before = self.before(flat).float().view(slots, count, -1)
        return [first @ after[0].T, *(before[at] @ after[at + 1].T for at in range(slots - 1))]

    def _write(self, layer: _Layer, x: Tensor, turns: Tensor, views: LayerRows) -> None:
        config = self.config
        both = layer.keys_values(x).float().view(x.shape[0], -1, config.head_dim)
        rotate_(both[:, : config.num_key_value_heads], turns)
        views.new.copy_(both)

    def _matrices(self) -> Iterator[Matrix]:
        yield from (self.fuse, self.before, self.after)
        for layer in self.layers:
            yield from (layer.queries, layer.keys_values, layer.out, layer.gate_up, layer.down)


def load_block(config: BlockConfig, weights: Weights, progress: Progress, cpu_weights: CpuWeights) -> BlockLayers:
    """`CheckpointError` names a tensor that is missing or misshapen."""
    reader = Reader(weights, progress, _LAYER_TENSORS * config.num_hidden_layers + _OTHER_TENSORS)
    hidden, rank, taps = config.hidden_size, config.bigram_rank, len(config.tapped_layers)

    def kept(name: str, rows: int, columns: int) -> Matrix:
        return matrix(reader.tensor(f"{name}.weight", rows, columns), None, cpu_weights)

    return BlockLayers(
        config,
        tap_norms=reader.tensor("tap_norms.weight", taps, hidden),
        fuse=kept("fuse", hidden, taps * hidden),
        context_norm=reader.tensor("context_norm.weight", hidden),
        slot=reader.tensor("slot.weight", 1, hidden),
        layers=tuple(_layer(config, reader, at, cpu_weights) for at in range(config.num_hidden_layers)),
        norm=reader.tensor("norm.weight", hidden),
        before=kept("bigram.before", rank, hidden),
        after=kept("bigram.after", rank, hidden),
        turns=Turns(inverse_frequencies(config.head_dim, config.rope_theta, {})),
    )


def _layer(config: BlockConfig, reader: Reader, number: int, kind: CpuWeights) -> _Layer:
    hidden, inner, at = config.hidden_size, config.intermediate_size, f"layers.{number}."
    queries, keys = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim

    def read(name: str, rows: int, columns: int) -> Tensor:
        return reader.tensor(f"{at}{name}.weight", rows, columns)

    query = paired(read("self_attn.q_proj", queries, hidden), config.num_attention_heads)
    key = paired(read("self_attn.k_proj", keys, hidden), config.num_key_value_heads)
    return _Layer(
        norm=reader.tensor(f"{at}input_layernorm.weight", hidden),
        queries=matrix(query, None, kind),
        keys_values=matrix(torch.cat((key, read("self_attn.v_proj", keys, hidden))), None, kind),
        out=matrix(read("self_attn.o_proj", hidden, queries), None, kind),
        mlp_norm=reader.tensor(f"{at}post_attention_layernorm.weight", hidden),
        gate_up=matrix(torch.cat([read(f"mlp.{name}_proj", inner, hidden) for name in ("gate", "up")]), None, kind),
        down=matrix(read("mlp.down_proj", hidden, inner), None, kind),
    )
