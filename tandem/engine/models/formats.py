"""What weights become on the CPU: the values of `--cpu-weights` (ENG-016)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from tandem.engine.checkpoints.rows import Rows, Stack, chunks, rows_of
from tandem.engine.models.digits import DigitMatrix
from tandem.engine.models.matrix import DenseMatrix, Matrix
from tandem.engine.models.nibbles import NibbleMatrix
from tandem.engine.models.packed import Int4Matrix, Int8Matrix
from tandem.engine.native import native

__all__ = [
    "CPU_WEIGHTS",
    "CpuMatrix",
    "CpuTable",
    "CpuWeights",
    "Part",
    "bytes_of",
    "copies",
    "default_for",
    "dense",
    "kernel_of",
    "matrix",
    "stacked",
    "table",
]

CpuWeights: TypeAlias = Literal["fp32", "bf16", "int8", "int4"]
CpuMatrix: TypeAlias = DenseMatrix | DigitMatrix | Int8Matrix | NibbleMatrix | Int4Matrix
CpuTable: TypeAlias = DenseMatrix | DigitMatrix | Int8Matrix
"""A table is a matrix as well, so a tied head is the embedding itself."""

CPU_WEIGHTS: tuple[CpuWeights, ...] = get_args(CpuWeights)
_FOUR_BITS = frozenset({"Q4_0", "Q4_1"})

_KERNELS: Mapping[str, str] = MappingProxyType(
    {
        "fp32": "torch linear",
        "bf16": "torch linear, mv for one row",
        "int8": "onednn integers, else torch weight_int8pack",
        "int4": "torch weight_int4pack",
        "layers": "torch",
    }
)
_OURS: Mapping[str, str] = MappingProxyType(
    {
        "int8": "integers in C, onednn integers, else torch weight_int8pack",
        "int4": "integers in C",
        "layers": "C for few rows",
    }
)
"""The same where `tandem.engine.native` serves."""

Part: TypeAlias = tuple[Tensor | Rows, Tensor | None]
"""A weight (N, K), whole or read by rows, and its bias (N) in fp32."""


def kernel_of(form: str) -> str:
    """What multiplies a matrix of that format in memory, and what norms and attends (`layers`); for the load report
    (ENG-031).
    """
    return ({} if native() is None else _OURS).get(form) or _KERNELS.get(form, form)


def default_for(formats: Iterable[str]) -> CpuWeights:
    """The fastest kind that passes the quality gate, for layers whose matrices lie on disk in `formats`.

    int4 reads the fewest bytes, and keeps the codes of a file that has 4 bits already; weights of more bits lose too
    much in it, and become int8. So do 4-bit floats, whose steps are not even. `python -m bench.quality` measures every
    kind.
    """
    return "int4" if set(formats) <= _FOUR_BITS else "int8"


def matrix(weight: Tensor | Rows, bias: Tensor | None, kind: CpuWeights) -> CpuMatrix:
    """A layer's matrix. A shape that has no kernel of `kind` gets the next wider one."""
    if kind == "int4" and Int4Matrix.takes(weight.shape):
        form = NibbleMatrix if NibbleMatrix.takes(weight.shape) else Int4Matrix
        return form(weight, bias, keeps_copy=Int4Matrix.may_keep_copy(weight.shape))
    return table(weight, bias, kind)


def table(weight: Tensor | Rows, bias: Tensor | None, kind: CpuWeights) -> CpuTable:
    """The embedding or the head. Under `int4` they are int8: in 4 bits a head alone fails the quality gate."""
    form = _int8(weight.shape) if kind in ("int4", "int8") else None
    return dense(weight, bias, kind) if form is None else form(weight, bias)


def dense(weight: Tensor | Rows, bias: Tensor | None, kind: CpuWeights) -> DenseMatrix:
    """A matrix that keeps its numbers: in fp32 under `fp32`, else in bf16."""
    dtype = torch.float32 if kind == "fp32" else torch.bfloat16
    if isinstance(weight, Tensor):
        return DenseMatrix(weight.to(dtype), bias)
    kept = torch.empty(weight.shape, dtype=dtype)
    for at, chunk in chunks(weight):
        kept[at] = chunk
    return DenseMatrix(kept, bias)


def stacked(parts: Sequence[Part], kind: CpuWeights) -> CpuMatrix:
    """Several matrices over the same input as one, outputs side by side: all of them are read in one product."""
    biases = [bias for _, bias in parts if bias is not None]
    if biases and len(biases) != len(parts):
        raise ValueError("either every part of a stacked matrix has a bias or none")
    weight = Stack([rows_of(weight) for weight, _ in parts])
    return matrix(weight, torch.cat(biases) if biases else None, kind)


def bytes_of(shape: Sequence[int], kind: CpuWeights, *, layer: bool) -> int:
    """What a tensor of `shape` takes in memory, for a load to be weighed before it starts.

    `layer` tells a layer's matrix from the embedding and the head. A tensor that is no matrix stays in fp32.
    """
    count = torch.Size(shape).numel()
    if len(shape) != 2 or kind == "fp32":
        return 4 * count
    if kind == "int4" and layer and Int4Matrix.takes(shape):
        return Int4Matrix.bytes_for(shape) + (2 * count if Int4Matrix.may_keep_copy(shape) else 0)
    form = None if kind == "bf16" else _int8(shape)
    return 2 * count if form is None else form.bytes_for(shape)


def copies(matrices: Iterable[Matrix]) -> dict[str, int]:
    """Bytes of the bf16 copies that matrices keep, which a single row does not read: a group of `Model.nbytes`."""
    count = sum(matrix.copy_nbytes for matrix in matrices if isinstance(matrix, NibbleMatrix | Int4Matrix))
    return {"copies": count} if count else {}


def _int8(shape: Sequence[int]) -> type[DigitMatrix | Int8Matrix] | None:
    """What keeps a matrix of `shape` in 8 bits, if anything does."""
    return DigitMatrix if DigitMatrix.takes(shape) else Int8Matrix if Int8Matrix.takes(shape) else None
