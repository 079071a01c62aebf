"""The Gated DeltaNet layers of Qwen3.5 (arXiv:2412.06464): a recurrence in place of attention (ENG-007, ENG-008).

Shapes in comments: T rows of the chunk, G query and key heads, H value heads, Dk and Dv the sizes of a key and of a
value head, W the width of the convolution, C = 2 G Dk + H Dv its channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from tandem.engine.kernels.conv import causal_conv, conv_verify
from tandem.engine.kernels.delta import delta_chunk, delta_step, delta_verify
from tandem.engine.kernels.norms import gated_rms_norm
from tandem.engine.models.layers import joined, parted
from tandem.engine.models.matrix import Matrix
from tandem.engine.models.recurrent import LayerMemory, LayerRecords

__all__ = ["GatedDelta"]


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """The weights of one layer's recurrence, and what they compute."""

    project: Matrix  # hidden to C + H Dv: queries, keys, values, output gates
    gates: Matrix  # hidden to 2 H: how much is written (b) and how much is forgotten (a)
    conv: Tensor  # (C, W), each of the W columns without gaps
    decay: Tensor  # (H): -exp(A_log)
    step_bias: Tensor  # (H)
    norm: Tensor  # (Dv)
    out: Matrix  # H Dv to hidden
    key_heads: int
    eps: float

    @property
    def matrices(self) -> Iterator[Matrix]:
        yield from (self.project, self.gates, self.out)

    @property
    def nbytes(self) -> int:
        small = (self.conv, self.decay, self.step_bias)
        return sum(matrix.nbytes for matrix in self.matrices) + sum(tensor.nbytes for tensor in small)

    def __call__(self, x: Tensor, memory: LayerMemory) -> tuple[Tensor, LayerMemory]:
        """(T, hidden) read after what `memory` holds, which stays as it is: the result, and the memory after it."""
        projected = self.project(x).float()
        mixed, tail = causal_conv(projected[:, : self.conv.shape[0]], memory.tail, self.conv)
        q, k, v, g, beta = self._parts(mixed, x)
        if x.shape[0] == 1:
            out, matrix = delta_step(q[0], k[0], v[0], g[0], beta[0], memory.matrix)
        else:
            out, matrix = delta_chunk(q, k, v, g, beta, memory.matrix)
        return self.out(self._gated(out, projected)), LayerMemory(matrix, tail)

    def verify(
        self, x: Tensor, memories: Sequence[LayerMemory], trees: Sequence[Tensor]
    ) -> tuple[Tensor, list[LayerRecords]]:
        """The rows of trees, one sequence's after the other, each read after what its memory holds: the results, and
        what a path of each would add. A tree is its rows' parents.
        """
        counts = [len(parents) for parents in trees]
        projected = self.project(x).float()
        parts = zip(parted(x, counts), parted(projected, counts), memories, trees, strict=True)
        gated, records = zip(*(self._verify(*part) for part in parts), strict=True)
        return self.out(joined(gated)), list(records)

    def _verify(
        self, x: Tensor, projected: Tensor, memory: LayerMemory, parents: Tensor
    ) -> tuple[Tensor, LayerRecords]:
        """One sequence's part of it; its rates, a few features a head, are its own too."""
        inputs = projected[:, : self.conv.shape[0]]
        mixed = conv_verify(inputs, memory.tail, self.conv, parents)
        out, records = delta_verify(*self._parts(mixed, x), memory.matrix, parents)
        return self._gated(out, projected), LayerRecords(inputs, records)

    def _parts(self, mixed: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Queries and keys (T, G, Dk), values (T, H, Dv), decays and rates (T, H), of what the convolution gives."""
        rows, heads = x.shape[0], self.decay.shape[0]
        split = mixed.shape[1] - heads * self.norm.shape[0]
        queries, keys = mixed[:, :split].view(rows, 2, self.key_heads, -1).unbind(1)
        write, forget = self.gates(x).float().chunk(2, dim=-1)
        decays = self.decay * functional.softplus(forget + self.step_bias)
        return queries, keys, mixed[:, split:].view(rows, heads, -1), decays, write.sigmoid()

    def _gated(self, out: Tensor, projected: Tensor) -> Tensor:
        """The heads' results (T, H, Dv), or (H, Dv) of a single row, normed and gated: (T, H Dv)."""
        rows, size = projected.shape[0], self.norm.shape[0]
        gate = projected[:, self.conv.shape[0] :].view(rows, -1, size)
        return gated_rms_norm(out.view(rows, -1, size), gate, self.norm, self.eps).view(rows, -1)
