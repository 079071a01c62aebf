"""Matrices on a device, in the codes of their checkpoint or in the type of the activations (ENG-021 to ENG-023).

Up to 32 rows go through the chosen kernel, which decodes in registers. A prefill's chunk has rows enough to pay for
decoding: pieces of the matrix become values in the type of `x`, are multiplied and dropped. NVFP4 codes with their
group's scale are exact in bf16, FP8 codes with their block's are rounded to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.checkpoints.fp8 import BLOCK, Fp8Blocks, Fp8Rows
from tandem.engine.checkpoints.nvfp4 import Nvfp4
from tandem.engine.checkpoints.weights import Coded, Stored
from tandem.engine.kernels.choice import Chosen
from tandem.engine.kernels.trees import ROWS
from tandem.engine.models.decoded import fp8_decoded, nvfp4_decoded, pairs

__all__ = ["Beside", "Dense", "DeviceMatrix", "Kept", "beside", "bytes_of", "moved"]

_PIECE = 1 << 25
"""Elements of a matrix that are decoded together: 64 MB in bf16, and a look-up takes as much again."""
_CODED = frozenset({"FP8", "FP8-rows", "NVFP4"})
"""Formats of a checkpoint that a device keeps."""


@dataclass(frozen=True, slots=True)
class Dense:
    """The numbers themselves."""

    weight: Tensor  # (N, K) in bf16 or fp32

    @property
    def format(self) -> str:
        return "bf16" if self.weight.dtype == torch.bfloat16 else str(self.weight.dtype).replace("torch.float", "fp")

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.weight.shape
        return rows, columns

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes


Kept: TypeAlias = Coded | Dense
"""What a matrix is in memory."""


def moved(coded: Coded, device: torch.device) -> Coded:
    """The codes and scales in memory of their own on `device`."""

    def there(tensor: Tensor) -> Tensor:
        return tensor.to(device, copy=True)

    if isinstance(coded, Nvfp4):
        return Nvfp4(there(coded.codes), there(coded.scales), there(coded.scale))
    return replace(coded, codes=there(coded.codes), scales=there(coded.scales))


def bytes_of(name: str, stored: Stored, dtype: torch.dtype) -> int:
    """What a tensor takes on a device, for a load to be weighed before it starts: codes what they take on disk."""
    if len(stored.shape) < 2:
        return torch.Size(stored.shape).numel() * torch.float32.itemsize
    if stored.format in _CODED and name != "embed_tokens.weight":
        return stored.nbytes
    return torch.Size(stored.shape).numel() * dtype.itemsize


class DeviceMatrix:
    """A `Matrix` of one format. Its result is in the type of what it is given."""

    def __init__(self, kept: Kept, chosen: Chosen) -> None:
        self.kept = kept
        op = {Nvfp4: "nvfp4_linear", Fp8Blocks: "fp8_linear"}.get(type(kept), "head")
        n, k = kept.shape
        self._few: Callable[..., Tensor] = chosen(op, rows=ROWS, n=n, k=k)
        self._weights = _arguments(kept)

    @property
    def shape(self) -> tuple[int, int]:
        return self.kept.shape

    @property
    def format(self) -> str:
        return self.kept.format

    @property
    def nbytes(self) -> int:
        return self.kept.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[0] <= ROWS:
            return self._few(x, *self._weights).to(x.dtype)
        if isinstance(self.kept, Dense):
            return functional.linear(x, self.kept.weight)
        return torch.cat([self._many(x, slice(*piece)) for piece in _pieces(self.kept.shape)], dim=-1)

    def logits(self, x: Tensor) -> Tensor:
        """(rows, K) to (rows, N) in fp32, 32 rows at a time, so a row's bits do not depend on how many there are."""
        if isinstance(self.kept, Nvfp4 | Fp8Blocks):
            x = x.float()  # their kernels answer in the type they are asked in
        parts = [self._few(part, *self._weights) for part in torch.split(x, ROWS)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _many(self, x: Tensor, rows: slice) -> Tensor:
        """The outputs `rows` for more inputs than a kernel takes."""
        match self.kept:
            case Nvfp4(codes, scales, scale):
                table = pairs(x.dtype, x.device)
                return _product(x, nvfp4_decoded(codes[rows], scales[rows], table, x.dtype)).mul_(scale).to(x.dtype)
            case Fp8Blocks(codes, scales):
                blocks = slice(rows.start // BLOCK, -(-rows.stop // BLOCK))
                return _product(x, fp8_decoded(codes[rows], scales[blocks], x.dtype)).to(x.dtype)
            case Fp8Rows(codes, scales):
                return _product(x, codes[rows].to(x.dtype)).mul_(scales[rows]).to(x.dtype)
            case Dense(weight):
                return functional.linear(x, weight[rows])


class Beside:
    """Several matrices over the same input that cannot be one: their outputs side by side."""

    def __init__(self, parts: Sequence[DeviceMatrix]) -> None:
        self._parts = tuple(parts)

    @property
    def shape(self) -> tuple[int, int]:
        return sum(part.shape[0] for part in self._parts), self._parts[0].shape[1]

    @property
    def format(self) -> str:
        return " and ".join(dict.fromkeys(part.format for part in self._parts))

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self._parts], dim=-1)


def beside(parts: Sequence[Kept], chosen: Chosen) -> DeviceMatrix | Beside:
    """Matrices over the same input as one: joined where their formats allow it, since each product is a launch."""
    joined: list[Kept] = []
    for part in parts:
        both = _joined(joined[-1], part) if joined else None
        joined[-1 if both is not None else len(joined) :] = [part if both is None else both]
    matrices = [DeviceMatrix(each, chosen) for each in joined]
    return matrices[0] if len(matrices) == 1 else Beside(matrices)


def _joined(one: Kept, other: Kept) -> Kept | None:
    """One matrix below the other; None where that would change a value or begin inside a block."""
    match one, other:
        case Dense(upper), Dense(lower):
            return Dense(_below(upper, lower))
        case Nvfp4(), Nvfp4() if torch.equal(one.scale, other.scale):
            return Nvfp4(_below(one.codes, other.codes), _below(one.scales, other.scales), one.scale)
        case Fp8Blocks(), Fp8Blocks() if one.shape[0] % BLOCK == 0 and one.scales.dtype == other.scales.dtype:
            return Fp8Blocks(_below(one.codes, other.codes), _below(one.scales, other.scales))
        case Fp8Rows(), Fp8Rows():
            return Fp8Rows(_below(one.codes, other.codes), _below(one.scales, other.scales))
        case _:
            return None


def _below(upper: Tensor, lower: Tensor) -> Tensor:
    """8-bit floats as bytes, which every device can lay side by side."""
    if upper.dtype != torch.float8_e4m3fn:
        return torch.cat((upper, lower))
    return torch.cat((upper.view(torch.uint8), lower.view(torch.uint8))).view(torch.float8_e4m3fn)


def _arguments(kept: Kept) -> tuple[Any, ...]:
    """What the operation of a format is given after the rows."""
    match kept:
        case Nvfp4(codes, scales, scale):
            return codes, scales, scale
        case Fp8Blocks(codes, scales) | Fp8Rows(codes, scales):
            return codes, scales
        case Dense(weight):
            return (weight,)


def _pieces(shape: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Rows that are decoded together: whole blocks."""
    rows, columns = shape
    step = max(BLOCK, _PIECE // columns // BLOCK * BLOCK)
    return ((start, min(start + step, rows)) for start in range(0, rows, step))


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """(rows, K) times (n, K) of the same type, with a result in fp32."""
    if x.is_cuda and x.dtype != torch.float32:
        return torch.mm(x, weight.t(), out_dtype=torch.float32)
    return functional.linear(x.float(), weight.float())
