"""Weights of a Hugging Face directory: one safetensors file, or many with an index (ENG-020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from tandem.engine.checkpoints.fp8 import Fp8Blocks, Fp8Rows, block_scales_shape
from tandem.engine.checkpoints.hf_config import read_json
from tandem.engine.checkpoints.layout import DECODER, Layout
from tandem.engine.checkpoints.nvfp4 import GROUP, Nvfp4
from tandem.engine.checkpoints.weights import Catalogue, Coded, Stored
from tandem.engine.errors import CheckpointError

__all__ = [
    "CODE_BYTES",
    "ELEMENT_BYTES",
    "FP8",
    "FP8_ROWS",
    "INDEX",
    "NVFP4",
    "SINGLE",
    "SafetensorsWeights",
    "weight_files",
]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

ELEMENT_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
"""Types of tensors that stand for themselves."""
CODE_BYTES = {"F8_E4M3": 1, "U8": 1}
"""Types of codes, which are nothing without their scales."""
FP8, FP8_ROWS, NVFP4 = "FP8", "FP8-rows", "NVFP4"
"""What `Stored.format` says of a matrix in codes."""

_SCALES = ("_scale_inv", "_scale", "_scale_2", "_global_scale")
"""What follows `…weight` in the names of scales."""
_PACKED = ".weight_packed"


@dataclass(frozen=True, slots=True)
class _Group:
    """A matrix in codes: the parts that lie on disk, by what follows `…weight` in their names ("" for the codes)."""

    format: str
    parts: Mapping[str, Stored] = field(repr=False)


class SafetensorsWeights(Catalogue):
    """`StoredWeights` over memory-mapped files. Reading from several threads at once is not promised.

    A matrix in codes (`FP8`, `FP8_ROWS`, `NVFP4`) is one tensor here, under the name of its weight, and comes out as
    the values it stands for.
    """

    def __init__(self, source: Path | Sequence[Path], layout: Layout = DECODER) -> None:
        """A directory, or the files themselves. Reads the headers only.

        `CheckpointError` names the file or tensor that is missing, defined twice or of a form that is not served.
        """
        self.files = weight_files(source) if isinstance(source, Path) else list(source)
        super().__init__(self.files[0].parent)
        self._open: dict[str, Any] = {}
        self._groups: dict[str, _Group] = {}
        parts: dict[str, Stored] = {}
        for path in self.files:
            self._add(path, layout, parts)
        self._assemble(parts)

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The tensor on the CPU, in memory of its own."""
        stored = self._found(name, shape)
        if (coded := self.coded(name)) is not None:
            return coded.rows(0, coded.shape[0]).to(dtype)
        # A copy even where the type is right: the tensor that is read is a window on the file.
        return self._part(stored).to(dtype, copy=True)

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> torch.Tensor:
        """Rows `start` to below `stop` in fp32."""
        stored = self._found(name, shape)
        if (coded := self.coded(name)) is not None:
            return coded.rows(start, stop)
        return self._part(stored)[start:stop].float()

    def coded(self, name: str) -> Coded | None:
        """A matrix as it is stored, mapped from the file; None where its values themselves are."""
        group = self._groups.get(name)
        if group is None:
            return None
        parts = {suffix: self._part(stored) for suffix, stored in group.parts.items()}
        codes = parts[""]
        match group.format:
            case "FP8":
                return Fp8Blocks(codes, parts["_scale_inv"])
            case "FP8-rows":
                return Fp8Rows(codes, parts["_scale"].reshape(-1).float())
            case _ if "_global_scale" in parts:
                return Nvfp4(codes, parts["_scale"], 1 / parts["_global_scale"].reshape(()).float())
            case _:
                return Nvfp4(codes, parts["_scale"], parts["_scale_2"].reshape(()).float())

    def close(self) -> None:
        """Let go of the files."""
        self._open.clear()

    def _part(self, stored: Stored) -> torch.Tensor:
        tensor: torch.Tensor = self._open[stored.file].get_tensor(stored.name)
        return tensor

    def _add(self, path: Path, layout: Layout, parts: dict[str, Stored]) -> None:
        """Note the tensors of one file by canonical name."""
        file = str(path)
        try:
            opened: Any = safe_open(file, framework="pt")
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{file}: cannot be read as safetensors: {error}") from error
        self._open[file] = opened
        for name in opened.keys():  # noqa: SIM118 (a handle is no mapping)
            part = opened.get_slice(name)
            shape, kind = tuple(part.get_shape()), part.get_dtype()
            element = ELEMENT_BYTES.get(kind) or CODE_BYTES.get(kind) or 0
            stored = Stored(name, file, kind, shape, torch.Size(shape).numel() * element)
            canonical = layout.canonical(name)
            if canonical is None:
                self._skipped[name] = stored
                continue
            if (first := parts.get(canonical)) is not None:
                raise CheckpointError(
                    f"tensor {name} in {file} is defined twice: first as {first.name} in {first.file}"
                )
            if not element:
                raise _unserved(stored)
            parts[canonical] = stored

    def _assemble(self, parts: dict[str, Stored]) -> None:
        """Put codes and scales together; what stands for itself is a tensor of its own."""
        scales: dict[str, dict[str, Stored]] = {}
        for canonical in list(parts):
            weight, suffix = _scale_of(canonical)
            if suffix:
                scales.setdefault(weight, {})[suffix] = parts.pop(canonical)
        for canonical, stored in parts.items():
            weight = canonical.removesuffix("_packed") if canonical.endswith(_PACKED) else canonical
            if weight in self._stored:
                raise CheckpointError(
                    f"tensor {stored.name} in {stored.file} is defined twice: "
                    f"first as {self._stored[weight].name} in {self._stored[weight].file}"
                )
            own = scales.pop(weight, {})
            if stored.format in ELEMENT_BYTES:
                if own:
                    scale = next(iter(own.values()))
                    raise CheckpointError(
                        f"{scale.file}: tensor {scale.name} is a scale, but {stored.name} is {stored.format}, no codes"
                    )
                self._stored[weight] = stored
                continue
            group = _group(stored, own)
            size = sum(part.nbytes for part in group.parts.values())
            rows, columns = stored.shape
            values = (rows, 2 * columns if group.format == NVFP4 else columns)
            self._groups[weight] = group
            self._stored[weight] = Stored(stored.name, stored.file, group.format, values, size)
        for weight, own in scales.items():
            scale = next(iter(own.values()))
            raise CheckpointError(f"{scale.file}: tensor {scale.name} is a scale, but {weight} is missing")


def _scale_of(canonical: str) -> tuple[str, str]:
    """The weight whose scale this is and what follows it in the name; "" for a tensor that is none."""
    for suffix in _SCALES:
        if canonical.endswith(f".weight{suffix}"):
            return canonical.removesuffix(suffix), suffix
    return canonical, ""


def _group(codes: Stored, scales: Mapping[str, Stored]) -> _Group:
    """How codes are read with these scales; `CheckpointError` where a scale is missing, misshapen or not served."""
    parts = {"": codes, **scales}
    if len(codes.shape) != 2:
        raise _unserved(codes)
    rows, columns = codes.shape
    if codes.format == "F8_E4M3" and scales.keys() == {"_scale_inv"}:
        _require(scales["_scale_inv"], [block_scales_shape((rows, columns))], ("BF16", "F32"))
        return _Group(FP8, parts)
    if codes.format == "F8_E4M3" and scales.keys() == {"_scale"}:
        _require(scales["_scale"], [(rows,), (rows, 1)], ("F32", "BF16"))
        return _Group(FP8_ROWS, parts)
    whole = "_global_scale" if codes.name.endswith(_PACKED) else "_scale_2"
    if codes.format == "U8" and scales.keys() == {"_scale", whole}:
        if 2 * columns % GROUP:
            raise CheckpointError(f"{codes.file}: tensor {codes.name} has no whole groups of {GROUP} columns")
        _require(scales["_scale"], [(rows, 2 * columns // GROUP)], ("F8_E4M3",))
        _require(scales[whole], [(), (1,)], ("F32",))
        return _Group(NVFP4, parts)
    have = ", ".join(scale.name for scale in scales.values()) or "none"
    needed = f"_scale and {whole}" if codes.format == "U8" else "_scale_inv or _scale"
    raise CheckpointError(f"{_unserved(codes)}, and {codes.format} beside {needed} (there: {have})")


def _require(scale: Stored, shapes: Sequence[tuple[int, ...]], formats: Sequence[str]) -> None:
    if scale.shape not in shapes:
        raise CheckpointError(
            f"{scale.file}: tensor {scale.name} has shape {list(scale.shape)}, its codes ask for {list(shapes[0])}"
        )
    if scale.format not in formats:
        raise CheckpointError(f"{scale.file}: tensor {scale.name} is {scale.format}; served are {', '.join(formats)}")


def _unserved(stored: Stored) -> CheckpointError:
    served = ", ".join(ELEMENT_BYTES)
    return CheckpointError(f"{stored.file}: tensor {stored.name} is {stored.format}; served are {served}")


def weight_files(source: Path) -> list[Path]:
    """The safetensors files of a directory. `CheckpointError` names one that the index has and the disk has not."""
    index = source / INDEX
    if not index.exists():
        if (source / SINGLE).exists():
            return [source / SINGLE]
        raise CheckpointError(f"{source}: has neither {SINGLE} nor {INDEX}")
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index}: has no weight_map")
    paths = [source / name for name in sorted(set(weight_map.values()))]
    for path in paths:
        if not path.is_file():
            raise CheckpointError(f"{path}: the index names this file, but it is missing")
    return paths
