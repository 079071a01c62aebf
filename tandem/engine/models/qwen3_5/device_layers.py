"""The layers of Qwen3.5 on a device, by the operations that were chosen for it (ENG-007, ENG-008, ENG-028).

Activations are in one type throughout, rounded where the reference rounds: after every projection, norm, convolution,
rotation and gate, and in the residual stream. Weights lie as the checkpoint has them, not reordered as on the CPU.

Shapes in comments: T rows, H query or value heads, K kv heads, G key heads, D, Dk, Dv the sizes of heads, W the width
of the convolution, C = 2 G Dk + H Dv its channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.kernels.choice import Chosen
from tandem.engine.kernels.trees import ROWS
from tandem.engine.models.matrix import Matrix
from tandem.engine.models.recurrent import LayerMemory, LayerRecords

__all__ = ["DeviceAttention", "DeviceDelta", "DeviceLayer", "Ops", "Pass"]

_Op: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Ops:
    """What serves each operation beside the matrices: a kernel or its twin, with the twin's arguments."""

    rms_norm: _Op
    gated_rms_norm: _Op
    delta_gates: _Op
    gated_silu: _Op
    rotary: _Op
    decode_attention: _Op
    causal_conv: _Op
    conv_verify: _Op
    conv_commit: _Op
    delta_step: _Op
    delta_chunk: _Op
    delta_verify_chain: _Op
    delta_verify_tree: _Op
    delta_commit: _Op

    @staticmethod
    def of(config: ModelConfig, chosen: Chosen) -> Ops:
        heads = {"dk": config.linear_key_head_dim or 16, "dv": config.linear_value_head_dim or 16}
        return Ops(
            **{
                name: chosen(name)
                for name in ("rms_norm", "gated_rms_norm", "delta_gates", "gated_silu", "rotary", "causal_conv")
            },
            **{name: chosen(name, rows=ROWS) for name in ("conv_verify", "conv_commit")},
            **{
                name: chosen(name, rows=ROWS, **heads)
                for name in Ops.__slots__
                if name.startswith("delta_") and name != "delta_gates"
            },
            decode_attention=chosen("decode_attention", rows=ROWS, size=config.head_dim),
        )

    def commit(self, memory: LayerMemory, records: LayerRecords, path: Tensor) -> LayerMemory:
        """A `Commit`."""
        matrix = self.delta_commit(memory.matrix, records.delta, path)
        return LayerMemory(matrix, self.conv_commit(memory.tail, records.inputs, path))


@dataclass(frozen=True, slots=True)
class Pass:
    """What the layers of one pass share."""

    cos: Tensor  # (T, R / 2): of every row's rotary angles
    sin: Tensor
    rows: Tensor  # (T) int64: of the cache, where keys and values go
    attend: Callable[[Tensor, Tensor, Tensor], Tensor]
    """Queries (T, H, D) over keys and values (K, L, D), their own rows among them: (T, H, D)."""


@dataclass(frozen=True, slots=True)
class DeviceAttention:
    """The weights of one layer's attention, and what they compute."""

    project: Matrix  # hidden to (2 H + 2 K) D: every head's query and gate side by side, keys, values
    query_norm: Tensor  # (D) in fp32, as is the next; the one of a zero-centred norm is added
    key_norm: Tensor
    out: Matrix  # H D to hidden
    kv_heads: int
    eps: float
    ops: Ops

    @property
    def matrices(self) -> Iterator[Matrix]:
        yield from (self.project, self.out)

    @property
    def norms(self) -> Iterator[Tensor]:
        yield from (self.query_norm, self.key_norm)

    @property
    def nbytes(self) -> int:
        return sum(matrix.nbytes for matrix in self.matrices)

    def __call__(self, x: Tensor, keys: Tensor, values: Tensor, at: Pass) -> Tensor:
        """(T, hidden) mixed over a cache (K, L, D), which takes its keys and values."""
        size, ops = self.query_norm.shape[0], self.ops
        heads = self.project(x).view(x.shape[0], -1, size)
        of_queries = heads.shape[1] - 2 * self.kv_heads
        queries, gates = heads[:, :of_queries].view(x.shape[0], -1, 2, size).unbind(2)  # (T, H, D) each
        key, value = heads[:, of_queries:].chunk(2, dim=1)
        queries = ops.rotary(ops.rms_norm(queries, self.query_norm, self.eps), at.cos, at.sin)
        key = ops.rotary(ops.rms_norm(key, self.key_norm, self.eps), at.cos, at.sin)
        for cache, new in ((keys, key), (values, value)):
            cache.index_copy_(1, at.rows, new.transpose(0, 1).to(cache.dtype))
        mixed = at.attend(queries, keys, values)
        return self.out((mixed * gates.sigmoid()).flatten(1))


@dataclass(frozen=True, slots=True)
class DeviceDelta:
    """The weights of one layer's recurrence, and what they compute."""

    project: Matrix  # hidden to C + H Dv: queries, keys, values, output gates
    gates: Matrix  # hidden to 2 H: how much is written (b) and how much is forgotten (a)
    conv: Tensor  # (C, W), each of the W columns without gaps
    decay: Tensor  # (H) in fp32: -exp(A_log)
    step_bias: Tensor  # (H) in fp32
    norm: Tensor  # (Dv) in fp32
    out: Matrix  # H Dv to hidden
    key_heads: int
    eps: float
    ops: Ops

    @property
    def matrices(self) -> Iterator[Matrix]:
        yield from (self.project, self.gates, self.out)

    @property
    def norms(self) -> Iterator[Tensor]:
        yield self.norm

    @property
    def nbytes(self) -> int:
        small = (self.conv, self.decay, self.step_bias)
        return sum(matrix.nbytes for matrix in self.matrices) + sum(tensor.nbytes for tensor in small)

    def __call__(self, x: Tensor, memory: LayerMemory, into: LayerMemory | None = None) -> tuple[Tensor, LayerMemory]:
        """(T, hidden) read after what `memory` holds, which stays as it is: the result, and the memory after it.

        `into`, for a single row, is where that memory is to lie.
        """
        matrix, tail = into or (None, None)
        projected, channels = self.project(x), self.conv.shape[0]
        inputs, gate = projected[:, :channels], projected[:, channels:]
        mixed, tail = self.ops.causal_conv(inputs, memory.tail, self.conv, tail)
        parts = self._parts(mixed, x)
        if x.shape[0] == 1:
            out, matrix = self.ops.delta_step(*(part[0] for part in parts), memory.matrix, matrix)
        else:
            out, matrix = self.ops.delta_chunk(*parts, memory.matrix)
        return self._gated(out, gate), into or LayerMemory(matrix, tail)

    def verify(self, x: Tensor, memory: LayerMemory, parents: Tensor, *, chained: bool) -> tuple[Tensor, LayerRecords]:
        """A tree of rows read after what `memory` holds: the result, and what a path of it would add."""
        projected, channels = self.project(x), self.conv.shape[0]
        inputs, gate = projected[:, :channels], projected[:, channels:]
        mixed = self.ops.conv_verify(inputs, memory.tail, self.conv, parents)
        verify = self.ops.delta_verify_chain if chained else self.ops.delta_verify_tree
        out, records = verify(*self._parts(mixed, x), memory.matrix, parents)
        return self._gated(out, gate), LayerRecords(inputs, records)

    def _parts(self, mixed: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Queries and keys (T, G, Dk), values (T, H, Dv), decays and rates (T, H), of what the convolution gives."""
        rows, heads = x.shape[0], self.decay.shape[0]
        split = mixed.shape[1] - heads * self.norm.shape[0]
        queries, keys = mixed[:, :split].view(rows, 2, self.key_heads, -1).unbind(1)
        decays, rates = self.ops.delta_gates(self.gates(x), self.decay, self.step_bias)
        return queries, keys, mixed[:, split:].view(rows, heads, -1), decays, rates

    def _gated(self, out: Tensor, gate: Tensor) -> Tensor:
        """The heads' results (T, H, Dv), or (H, Dv) of a single row, normed and gated: (T, hidden)."""
        rows, size = gate.shape[0], self.norm.shape[0]
        gates = gate.view(rows, -1, size)
        return self.out(self.ops.gated_rms_norm(out.view(rows, -1, size), gates, self.norm, self.eps).view(rows, -1))


@dataclass(frozen=True, slots=True)
class DeviceLayer:
    """The weights of one decoder layer. To the norms' weights the one of a zero-centred norm is added."""

    mixer_norm: Tensor  # (hidden) in fp32
    mixer: DeviceAttention | DeviceDelta
    mlp_norm: Tensor  # (hidden) in fp32
    gate_up: Matrix  # hidden to 2 inner: gate, up
    down: Matrix  # inner to hidden

    @property
    def matrices(self) -> Iterator[Matrix]:
        yield from (*self.mixer.matrices, self.gate_up, self.down)

    def mlp(self, x: Tensor) -> Tensor:
        return self.down(self.mixer.ops.gated_silu(self.gate_up(x)))
