"""Quantised files laid over a base checkpoint: projections in NVFP4, a head in 8-bit floats (ENG-026).

A file covers a group of projections, such as the MLPs or one layer's attention; what no file covers stays the base's. A
projection covered twice has no meaning, and is an error that names both files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import torch

from tandem.engine.checkpoints.fp8 import Fp8Rows
from tandem.engine.checkpoints.rows import CHUNK_BYTES
from tandem.engine.checkpoints.safetensors import FP8_ROWS, NVFP4, SafetensorsWeights, weight_files
from tandem.engine.checkpoints.weights import Coded, Stored, require_shape
from tandem.engine.errors import CheckpointError

__all__ = ["BUILT", "NONE", "Overlaid", "Overlays", "overlay_files"]

BUILT: Literal["build"] = "build"
"""The head in 8-bit floats is made from the checkpoint's own while it is loaded."""
HEAD = "lm_head.weight"
EMBEDDING = "embed_tokens.weight"

Fp8Head: TypeAlias = Path | Literal["build"] | None


@dataclass(frozen=True, slots=True)
class Overlays:
    """What is laid over a checkpoint. A path is a safetensors file, or a directory of them."""

    nvfp4: tuple[Path, ...] = ()
    fp8_head: Fp8Head = None

    @property
    def report(self) -> dict[str, object]:
        """What is laid over what, for the load report; nothing where nothing is."""
        head = self.fp8_head.name if isinstance(self.fp8_head, Path) else self.fp8_head
        named = {"nvfp4": [path.name for path in self.nvfp4], "fp8_head": head}
        return {name: value for name, value in named.items() if value}


NONE = Overlays()


def overlay_files(path: Path) -> list[Path]:
    """The safetensors files that an overlay's path means."""
    if path.is_dir():
        return weight_files(path)
    if path.is_file() and path.suffix == ".safetensors":
        return [path]
    raise CheckpointError(f"{path}: expected a .safetensors file to lay over the checkpoint, or a directory of them")


class Overlaid:
    """`StoredWeights`: the base's, except for what an overlay covers."""

    def __init__(self, base: SafetensorsWeights, overlays: Overlays) -> None:
        """`CheckpointError` names a tensor that is covered twice, that the base has not, or of another format."""
        self._base = base
        self._over: dict[str, SafetensorsWeights] = {}
        self._stored = dict(base.stored())
        for path in overlays.nvfp4:
            self._lay(path, NVFP4, HEAD)
        if isinstance(overlays.fp8_head, Path):
            self._lay(overlays.fp8_head, FP8_ROWS, None)
        self._built = self._build() if overlays.fp8_head == BUILT else None

    @property
    def files(self) -> list[Path]:
        """Every file that is read."""
        opened = dict.fromkeys(file for over in self._over.values() for file in over.files)
        return [*self._base.files, *opened]

    def names(self) -> Iterable[str]:
        return self._stored.keys()

    def stored(self) -> Mapping[str, Stored]:
        return self._stored

    def skipped(self) -> Mapping[str, Stored]:
        return self._base.skipped()

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        if name == HEAD and self._built is not None and len(shape) == 2:
            require_shape(self._stored[HEAD], shape)
            return self.rows(name, (shape[0], shape[1]), 0, shape[0]).to(dtype)
        return self._of(name).tensor(name, shape, dtype)

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> torch.Tensor:
        if name == HEAD and self._built is not None:
            require_shape(self._stored[HEAD], shape)
            # Every row has a scale of its own, so a part of the head is made as the whole is.
            return Fp8Rows.of(self._base.rows(self._built, shape, start, stop)).rows(0, stop - start)
        return self._of(name).rows(name, shape, start, stop)

    def coded(self, name: str) -> Coded | None:
        if name == HEAD and self._built is not None:
            return self._coded_head(self._built)
        return self._of(name).coded(name)

    def close(self) -> None:
        self._base.close()
        for over in self._over.values():
            over.close()

    def _of(self, name: str) -> SafetensorsWeights:
        return self._over.get(name, self._base)

    def _lay(self, path: Path, format: str, never: str | None) -> None:
        over = SafetensorsWeights(overlay_files(path))
        for name, stored in over.stored().items():
            if stored.format != format or name == never or (never is None and name != HEAD):
                wanted = "a projection in NVFP4" if never else "a head in e4m3 with a scale a row"
                raise CheckpointError(f"{path}: tensor {stored.name} is {stored.format}; this overlay holds {wanted}")
            if (first := self._over.get(name)) is not None:
                where = first.stored()[name].file
                raise CheckpointError(f"{path}: tensor {stored.name} is in two overlays: first in {where}")
            covered = self._base.stored().get(name) or self._base.stored().get(EMBEDDING if name == HEAD else "")
            if covered is None:
                raise CheckpointError(f"{path}: tensor {stored.name} covers nothing that the checkpoint has")
            require_shape(stored, covered.shape)
            self._over[name] = over
            self._stored[name] = stored

    def _build(self) -> str:
        """The name of what the head is built from: its own weight, or the embedding that is tied to it."""
        source = next((name for name in (HEAD, EMBEDDING) if name in self._base.stored()), None)
        if source is None:
            raise CheckpointError(f"{self._base.files[0].parent}: has no head to put into 8 bits")
        stored = self._base.stored()[source]
        rows, columns = stored.shape
        self._stored[HEAD] = Stored(stored.name, stored.file, FP8_ROWS, stored.shape, rows * columns + 4 * rows)
        return source

    def _coded_head(self, source: str) -> Fp8Rows:
        rows, columns = self._stored[HEAD].shape
        whole = Fp8Rows(torch.empty(rows, columns, dtype=torch.float8_e4m3fn), torch.empty(rows))
        step = max(1, CHUNK_BYTES // (4 * columns))
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            part = Fp8Rows.of(self._base.rows(source, (rows, columns), start, stop))
            whole.codes[start:stop], whole.scales[start:stop] = part.codes, part.scales
        return whole
