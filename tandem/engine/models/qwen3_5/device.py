"""The Qwen3.5 decoder on a device: kernels where they serve, graphs where they can be had (ENG-006, 008, 028, 029).

A chunk of a prompt is read eagerly. A single row and a tree are passes of few shapes, which on CUDA replay graphs and
read and write the recurrent part in the two places of `places.py`; what they give is the eager pass' bit for bit. On
the CPU the same code runs in torch alone, which is how most of it is tested. It is no `JointModel`: a verify is of one
sequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.kernels.attention import chunk_attention, length_class
from tandem.engine.kernels.rotary import axes_of_pairs, rotary_table
from tandem.engine.models.device_matrix import Dense, DeviceMatrix
from tandem.engine.models.device_passes import DeviceState, Graphs, Inputs, Shape, depths, few
from tandem.engine.models.kv import KVCache
from tandem.engine.models.model import Sight
from tandem.engine.models.placement import Placement
from tandem.engine.models.qwen3_5.device_layers import DeviceDelta, DeviceLayer, Ops, Pass
from tandem.engine.models.recurrent import LayerMemory, LayerRecords, Recurrent
from tandem.engine.models.rotary import inverse_frequencies
from tandem.engine.models.state import State

__all__ = ["DeviceQwen35"]

_Layers = tuple[LayerMemory, ...]
_ROOT = [-1]


class DeviceQwen35:
    """A `SeeingModel`. Hidden states stay on the device; logits come back to the CPU, where tokens are sampled."""

    anchor_grid = 1024

    def __init__(
        self,
        config: ModelConfig,
        placement: Placement,
        *,
        embedding: Tensor,
        layers: list[DeviceLayer],
        norm: Tensor,
        head: DeviceMatrix,
        ops: Ops,
        kernels: Mapping[str, str],
        static: bool = True,
    ) -> None:
        """`embedding` is (vocab, hidden) in the type of activations. Without `static` a pass makes new values of
        everything and captures nothing, which only checks the other way.
        """
        self._config = config
        self._placement = placement
        self._embedding = embedding
        self._layers = layers
        self._norm = norm
        self._head = head
        self._ops = ops
        self._kernels = kernels
        self._static = static
        self._graphs: dict[str, str] = {}
        turned = int(config.head_dim * config.partial_rotary_factor)
        there = placement.device
        self._frequencies = inverse_frequencies(turned, config.rope_theta, config.rope_scaling).to(there)
        self._axes = axes_of_pairs(turned // 2, config.mrope_section).to(there)

    @property
    def config(self) -> ModelConfig:
        return self._config

    @property
    def placement(self) -> Placement:
        return self._placement

    @property
    def embedding(self) -> Tensor:
        return self._embedding

    @property
    def ops(self) -> Ops:
        return self._ops

    @property
    def kernels(self) -> Mapping[str, str]:
        """What serves each operation, and how each kind of pass was taken so far; for the load report (ENG-031)."""
        return {**self._kernels, **{f"{kind} pass": how for kind, how in self._graphs.items()}}

    @property
    def nbytes(self) -> Mapping[str, int]:
        mixers = [layer.mixer for layer in self._layers]
        norms = [self._norm]
        for layer in self._layers:
            norms += [layer.mixer_norm, *layer.mixer.norms, layer.mlp_norm]
        tied = isinstance(self._head.kept, Dense) and self._head.kept.weight is self._embedding
        return {
            "embedding": self._embedding.nbytes,
            "attention": sum(mixer.nbytes for mixer in mixers if not isinstance(mixer, DeviceDelta)),
            "recurrent": sum(mixer.nbytes for mixer in mixers if isinstance(mixer, DeviceDelta)),
            "mlp": sum(layer.gate_up.nbytes + layer.down.nbytes for layer in self._layers),
            "norms": sum(norm.nbytes for norm in norms),
            "head": 0 if tied else self._head.nbytes,
        }

    @property
    def formats(self) -> Mapping[str, int]:
        return Counter(matrix.format for layer in self._layers for matrix in layer.matrices) + Counter(
            [self._head.format]
        )

    def new_state(self, max_len: int) -> State:
        config, placement = self._config, self._placement
        layers = config.layers_of("full_attention")
        kv = KVCache(layers, config.num_key_value_heads, max_len, config.head_dim, placement)
        graphs = Graphs(placement.device, self._graphs)
        return DeviceState(kv, Recurrent.empty(config, placement), self._ops.commit, graphs)

    def forward(self, ids: Tensor, start: int, state: State) -> Tensor:
        stood, rows = state.standing_at(start), ids.shape[0]
        if rows == 1:
            return self._row(ids, start, stood, _of_device(state))
        positions = torch.arange(rows) + (start + stood.offset)
        return self._chunk(self._embed(self._there(ids)), self._turned(positions), start, state, stood.offset)

    def forward_seen(self, ids: Tensor, start: int, state: State, sight: Sight) -> Tensor:
        state.standing_at(start)
        x = self._embed(self._there(ids))
        x[self._there(sight.at)] = self._there(sight.rows).to(x.dtype)
        offset = int(sight.positions[:, -1].max()) + 1 - (start + len(ids))
        return self._chunk(x, self._turned(sight.positions), start, state, offset)

    def verify(self, ids: Tensor, parents: Tensor, start: int, state: State) -> Tensor:
        stood, state, rows = state.standing_at(start), _of_device(state), ids.shape[0]
        above = parents.tolist()
        chained = above == list(range(-1, rows - 1))
        kind = "chain" if chained else "tree"
        count = few(rows, state.writable - start) if self._static else rows
        positions = [start + stood.offset + depth for depth in depths(above)]
        inputs = self._filled(state, kind, count, ids, positions, start, above)
        limit = length_class(start + count)
        if self._static:
            place = state.places.put(stood)
            run = partial(self._tree, inputs, limit, state.places.layers[place], state.kv, chained)
            hidden, records = state.graphs.run(Shape(kind, count, limit, place), run)
            hidden = hidden[:rows].clone()
        else:
            hidden, records = self._tree(inputs, limit, stood.layers, state.kv, chained)
        state.verified(start, records)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head.logits(hidden).cpu()

    def _row(self, ids: Tensor, start: int, stood: Recurrent, state: DeviceState) -> Tensor:
        """The pass of one row; `stood` is what stands before it."""
        inputs = self._filled(state, "step", 1, ids, [start + stood.offset], start, _ROOT)
        limit = length_class(start + 1)
        if not self._static:
            hidden, after = self._step(inputs, limit, stood.layers, (None,) * len(stood.layers), state.kv)
            state.put_back(Recurrent(start + 1, after, stood.offset))
            return hidden
        places = state.places
        place = places.put(stood)
        to = places.free(1 - place)
        run = partial(self._step, inputs, limit, places.layers[place], places.layers[to], state.kv)
        hidden, _ = state.graphs.run(Shape("step", 1, limit, place), run)
        state.put_back(places.written(to, start + 1, stood.offset))
        return hidden.clone()

    def _step(
        self, inputs: Inputs, limit: int, before: _Layers, into: Sequence[LayerMemory | None], kv: KVCache
    ) -> tuple[Tensor, _Layers]:
        """One row, by what lies in `inputs` alone; what is remembered after it goes `into` where that is given."""
        after, places = [], iter(zip(before, into, strict=True))

        def recur(mixer: DeviceDelta, x: Tensor) -> Tensor:
            memory, to = next(places)
            mixed, remembered = mixer(x, memory, to)
            after.append(remembered)
            return mixed

        return self._read(self._embed(inputs.ids), self._few(inputs, limit), kv, recur), tuple(after)

    def _tree(
        self, inputs: Inputs, limit: int, before: _Layers, kv: KVCache, chained: bool
    ) -> tuple[Tensor, tuple[LayerRecords, ...]]:
        """The rows of a tree, by what lies in `inputs` alone."""
        records, layers = [], iter(before)

        def recur(mixer: DeviceDelta, x: Tensor) -> Tensor:
            mixed, kept = mixer.verify(x, next(layers), inputs.parents, chained=chained)
            records.append(kept)
            return mixed

        return self._read(self._embed(inputs.ids), self._few(inputs, limit), kv, recur), tuple(records)

    def _chunk(self, x: Tensor, turns: tuple[Tensor, Tensor], start: int, state: State, offset: int) -> Tensor:
        """Embeddings (T, hidden) of a prompt's rows; text behind them stands `offset` off its rows."""
        rows, before, after = x.shape[0], iter(state.standing_at(start).layers), []

        def recur(mixer: DeviceDelta, x: Tensor) -> Tensor:
            mixed, memory = mixer(x, next(before))
            after.append(memory)
            return mixed

        where = torch.arange(start, start + rows, device=x.device)
        hidden = self._read(x, Pass(*turns, where, partial(chunk_attention, start + rows)), state.kv, recur)
        state.put_back(Recurrent(start + rows, tuple(after), offset))
        return hidden

    def _read(self, x: Tensor, at: Pass, kv: KVCache, recur: Callable[[DeviceDelta, Tensor], Tensor]) -> Tensor:
        """All layers over embeddings (T, hidden); `recur` takes each recurrent layer, in their order."""
        eps, norm = self._config.rms_norm_eps, self._ops.rms_norm
        caches = iter(zip(kv.keys, kv.values, strict=True))
        for layer in self._layers:
            normed, mixer = norm(x, layer.mixer_norm, eps), layer.mixer
            x = x + (recur(mixer, normed) if isinstance(mixer, DeviceDelta) else mixer(normed, *next(caches), at))
            x = x + layer.mlp(norm(x, layer.mlp_norm, eps))
        return norm(x, self._norm, eps)  # type: ignore[no-any-return]

    def _few(self, inputs: Inputs, limit: int) -> Pass:
        """How the rows of `inputs` see the cache and each other."""
        attend = self._ops.decode_attention

        def over(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            return attend(q, keys, values, inputs.base, inputs.parents, limit)  # type: ignore[no-any-return]

        return Pass(*rotary_table(inputs.positions, self._frequencies), inputs.rows.long(), over)

    def _filled(
        self,
        state: DeviceState,
        kind: str,
        count: int,
        ids: Tensor,
        positions: Sequence[int],
        start: int,
        parents: Sequence[int],
    ) -> Inputs:
        inputs = state.graphs.inputs(kind, count)
        inputs.fill(ids.tolist(), positions, start, parents)
        return inputs

    def _embed(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self._embedding)

    def _turned(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The rotary table of positions (T), or (3, T) where images are among them."""
        return rotary_table(self._there(positions), self._frequencies, self._axes if positions.dim() == 2 else None)

    def _there(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._placement.device)


def _of_device(state: State) -> DeviceState:
    if not isinstance(state, DeviceState):
        raise TypeError("a state of another model")
    return state
