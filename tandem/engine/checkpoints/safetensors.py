"""Weights of a Hugging Face directory: one safetensors file, or many with an index (ENG-020)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from tandem.engine.checkpoints.hf_config import read_json
from tandem.engine.checkpoints.layout import DECODER, Layout
from tandem.engine.checkpoints.weights import Catalogue, Stored
from tandem.engine.errors import CheckpointError

__all__ = ["ELEMENT_BYTES", "INDEX", "SINGLE", "SafetensorsWeights"]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

ELEMENT_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


class SafetensorsWeights(Catalogue):
    """`Weights` over memory-mapped files. Reading from several threads at once is not promised."""

    def __init__(self, directory: Path, layout: Layout = DECODER) -> None:
        """Reads the headers only. `CheckpointError` names the file or tensor that is missing or defined twice."""
        self.files = _files(directory)
        super().__init__(self.files[0].parent)
        self._open: dict[str, Any] = {}
        for path in self.files:
            self._add(path, layout)

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The tensor on the CPU, in memory of its own."""
        stored = self._found(name, shape)
        tensor: torch.Tensor = self._open[stored.file].get_tensor(stored.name)
        return tensor.to(dtype)

    def _add(self, path: Path, layout: Layout) -> None:
        file = str(path)
        try:
            opened: Any = safe_open(file, framework="pt")
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{file}: cannot be read as safetensors: {error}") from error
        self._open[file] = opened
        for name in opened.keys():  # noqa: SIM118 (a handle is no mapping)
            canonical = layout.canonical(name)
            if canonical is None:
                continue
            if (first := self._stored.get(canonical)) is not None:
                raise CheckpointError(
                    f"tensor {name} in {file} is defined twice: first as {first.name} in {first.file}"
                )
            part = opened.get_slice(name)
            shape, kind = tuple(part.get_shape()), part.get_dtype()
            if kind not in ELEMENT_BYTES:
                raise CheckpointError(f"{file}: tensor {name} is {kind}; served are {', '.join(ELEMENT_BYTES)}")
            self._stored[canonical] = Stored(name, file, kind, shape, torch.Size(shape).numel() * ELEMENT_BYTES[kind])


def _files(directory: Path) -> list[Path]:
    index = directory / INDEX
    if not index.exists():
        if (directory / SINGLE).exists():
            return [directory / SINGLE]
        raise CheckpointError(f"{directory}: has neither {SINGLE} nor {INDEX}")
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index}: has no weight_map")
    paths = [directory / name for name in sorted(set(weight_map.values()))]
    for path in paths:
        if not path.is_file():
            raise CheckpointError(f"{path}: the index names this file, but it is missing")
    return paths
