"""The vision tower of Qwen3.5 in plain torch: a ViT over one image's patches, merged two by two at the end (ENG-098).

Learned positions are spread over the image's grid, and rotary ones turn each head by row and column (Qwen2-VL,
arXiv:2409.12191). The residual stream, the norms and the turns are in fp32, the matrices in what they are kept in. One
image is one pass, so what comes of it does not depend on its neighbours. Shapes in comments: N patches, H heads, D the
size of one, M patches to a merged patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.checkpoints.config import VisionConfig
from tandem.engine.kernels.rotary import rotary
from tandem.engine.models.matrix import DenseMatrix

__all__ = ["Block", "Norm", "Tower", "encode_bytes"]

_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class Norm:
    """A layer norm (arXiv:1607.06450) in fp32."""

    weight: Tensor  # (hidden)
    bias: Tensor  # (hidden)

    def __call__(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, _EPS)


@dataclass(frozen=True, slots=True)
class Block:
    """The weights of one block."""

    attention_norm: Norm
    qkv: DenseMatrix  # hidden to 3 hidden: queries, keys, values
    out: DenseMatrix
    mlp_norm: Norm
    up: DenseMatrix  # hidden to inner
    down: DenseMatrix


class Tower:
    """Turns the patches of one image into rows for the decoder."""

    def __init__(
        self,
        config: VisionConfig,
        *,
        patches: DenseMatrix,
        positions: Tensor,
        blocks: Sequence[Block],
        merge_norm: Norm,
        merge_up: DenseMatrix,
        merge_down: DenseMatrix,
    ) -> None:
        """`patches` maps patch_numbers to hidden; `positions` is (side x side, hidden) in fp32; `merge_up` maps what M
        patches have together to as much, `merge_down` that to the decoder's hidden size.
        """
        self.config = config
        self._patches = patches
        self._positions = positions
        self._blocks = tuple(blocks)
        self._merge_norm = merge_norm
        self._merge_up = merge_up
        self._merge_down = merge_down
        quarter = config.hidden_size // config.num_heads // 4
        steps = torch.arange(0, 2 * quarter, 2, dtype=torch.float32) / (2 * quarter)
        self._frequencies = 1.0 / config.rope_theta**steps  # (D / 4)

    @property
    def dtype(self) -> torch.dtype:
        """What patches are to come in."""
        return torch.bfloat16 if self._patches.format == "bf16" else torch.float32

    @property
    def nbytes(self) -> int:
        blocks = [matrix for block in self._blocks for matrix in (block.qkv, block.out, block.up, block.down)]
        norms = [norm for block in self._blocks for norm in (block.attention_norm, block.mlp_norm)]
        matrices = sum(matrix.nbytes for matrix in (*blocks, self._patches, self._merge_up, self._merge_down))
        small = sum(norm.weight.nbytes + norm.bias.nbytes for norm in (*norms, self._merge_norm))
        return matrices + small + self._positions.nbytes

    def __call__(self, pixels: Tensor, across: int, down: int) -> Tensor:
        """Patches (N, patch_numbers) of an image of `across` x `down` merged patches to its rows (N / M, hidden of the
        decoder), in the order of the rows.
        """
        rows, columns = self._places(across, down)
        x = self._patches(pixels).float() + self._learned(rows, columns, across, down)
        angles = torch.cat([at[:, None] * self._frequencies for at in (rows, columns)], dim=1)  # (N, D / 2)
        cos, sin = angles.cos(), angles.sin()
        for block in self._blocks:
            x += self._attend(block, block.attention_norm(x), cos, sin)
            x += block.down(functional.gelu(block.up(block.mlp_norm(x)), approximate="tanh"))
        merged = self._merge_norm(x).view(across * down, -1)
        return self._merge_down(functional.gelu(self._merge_up(merged)))

    def _places(self, across: int, down: int) -> tuple[Tensor, Tensor]:
        """Row and column of each patch, two (N) in fp32; patches come merged patch by merged patch."""
        merge = self.config.spatial_merge_size
        rows = torch.arange(down * merge).view(down, 1, merge, 1).expand(-1, across, -1, merge)
        columns = torch.arange(across * merge).view(1, across, 1, merge).expand(down, -1, merge, -1)
        return rows.flatten().float(), columns.flatten().float()

    def _learned(self, rows: Tensor, columns: Tensor, across: int, down: int) -> Tensor:
        """The learned positions (N, hidden), spread so that the corners of their square meet the image's."""
        side, merge = round(self._positions.shape[0] ** 0.5), self.config.spatial_merge_size
        axes = []
        for at, count in ((rows, down * merge), (columns, across * merge)):
            place = at * (side - 1) / max(count - 1, 1)
            low = place.floor()
            axes.append((low.long(), (low.long() + 1).clamp(max=side - 1), place - low))
        (top, bottom, below), (left, right, beside) = axes
        learned = torch.zeros(len(rows), self._positions.shape[1])
        for row, share in ((top, 1 - below), (bottom, below)):
            for column, part in ((left, 1 - beside), (right, beside)):
                learned += self._positions[row * side + column] * (share * part)[:, None]
        return learned

    def _attend(self, block: Block, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Every patch over all patches of the image: (N, hidden)."""
        heads = block.qkv(x).view(x.shape[0], 3, self.config.num_heads, -1)
        q, k = (rotary(heads[:, part], cos, sin).transpose(0, 1)[None] for part in (0, 1))
        mixed = functional.scaled_dot_product_attention(q, k, heads[:, 2].transpose(0, 1)[None])
        return block.out(mixed[0].transpose(0, 1).reshape(x.shape[0], -1))


def encode_bytes(config: VisionConfig, dtype: torch.dtype) -> int:
    """Bytes that a pass of the tower takes for each prompt row: an encode is weighed by them before it waits (ENG-102).

    Counted where most lives at once: in a block's attention or in its MLP, beside the patches, the stream, the angles.
    """
    wide, narrow = torch.float32.itemsize, dtype.itemsize
    hidden, inner = config.hidden_size, config.intermediate_size
    beside = config.patch_numbers * narrow + 2 * hidden * wide + hidden // config.num_heads * wide
    # The norm's result in both types; queries, keys, values; two of them turned, with what turns them; the mixture.
    attention = hidden * (wide + narrow) + 3 * hidden * narrow + 2 * hidden * (3 * wide + narrow) + 2 * hidden * narrow
    mlp = hidden * (wide + narrow) + 2 * inner * narrow + hidden * (wide + narrow)
    return config.merged * (beside + max(attention, mlp))
