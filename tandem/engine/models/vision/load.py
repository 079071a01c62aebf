"""From a checkpoint's tensors to a `Tower`."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from tandem.engine.checkpoints.config import VisionConfig
from tandem.engine.checkpoints.weights import Weights
from tandem.engine.models.formats import CpuWeights, dense
from tandem.engine.models.matrix import DenseMatrix
from tandem.engine.models.model import Progress
from tandem.engine.models.reader import Reader
from tandem.engine.models.vision.tower import Block, Norm, Tower

__all__ = ["TOWER", "load_tower", "tower_bytes", "tower_dtype"]

TOWER = "visual."
"""What the canonical names of its tensors begin with."""
_BLOCK_TENSORS, _OTHER_TENSORS = 12, 9


def tower_dtype(cpu_weights: CpuWeights) -> torch.dtype:
    """The tower keeps its numbers: codes of 8 or 4 bits are the decoder's alone."""
    return torch.float32 if cpu_weights == "fp32" else torch.bfloat16


def tower_bytes(shapes: Iterable[tuple[int, ...]], cpu_weights: CpuWeights) -> int:
    """What the tower's tensors take in memory, for a load to be weighed before it starts."""
    sizes = [(torch.Size(shape).numel(), len(shape)) for shape in shapes]
    return sum(count * (tower_dtype(cpu_weights).itemsize if axes > 1 else 4) for count, axes in sizes)


def load_tower(config: VisionConfig, weights: Weights, progress: Progress, cpu_weights: CpuWeights = "fp32") -> Tower:
    """Read every tensor of the tower; `CheckpointError` names a missing or misshapen one."""
    reader = _Reader(config, weights, progress, cpu_weights)
    hidden, together = config.hidden_size, config.hidden_size * config.merged
    return Tower(
        config,
        patches=reader.patches(),
        positions=reader.tensor(f"{TOWER}pos_embed.weight", config.num_position_embeddings, hidden),
        blocks=[reader.block(index) for index in range(config.depth)],
        merge_norm=reader.norm("merger.norm"),
        merge_up=reader.matrix("merger.linear_fc1", together, together),
        merge_down=reader.matrix("merger.linear_fc2", config.out_hidden_size, together),
    )


class _Reader(Reader):
    def __init__(self, config: VisionConfig, weights: Weights, progress: Progress, cpu_weights: CpuWeights) -> None:
        super().__init__(weights, progress, _BLOCK_TENSORS * config.depth + _OTHER_TENSORS)
        self._config = config
        self._kind = cpu_weights

    def patches(self) -> DenseMatrix:
        """A convolution whose steps are as wide as its kernel: a matrix over the numbers of a patch."""
        config, at = self._config, f"{TOWER}patch_embed.proj."
        side = config.patch_size
        shape = (config.hidden_size, config.in_channels, config.temporal_patch_size, side, side)
        kernel = self.tensor(f"{at}weight", *shape)
        return dense(kernel.flatten(1), self.tensor(f"{at}bias", config.hidden_size), self._kind)

    def block(self, index: int) -> Block:
        config, at = self._config, f"blocks.{index}."
        hidden, inner = config.hidden_size, config.intermediate_size
        return Block(
            attention_norm=self.norm(f"{at}norm1"),
            qkv=self.matrix(f"{at}attn.qkv", 3 * hidden, hidden),
            out=self.matrix(f"{at}attn.proj", hidden, hidden),
            mlp_norm=self.norm(f"{at}norm2"),
            up=self.matrix(f"{at}mlp.linear_fc1", inner, hidden),
            down=self.matrix(f"{at}mlp.linear_fc2", hidden, inner),
        )

    def norm(self, name: str) -> Norm:
        weight, bias = (self.tensor(f"{TOWER}{name}.{part}", self._config.hidden_size) for part in ("weight", "bias"))
        return Norm(weight, bias)

    def matrix(self, name: str, rows: int, columns: int) -> DenseMatrix:
        weight = self.rows(f"{TOWER}{name}.weight", rows, columns)
        return dense(weight, self.tensor(f"{TOWER}{name}.bias", rows), self._kind)
