"""The file of a piece of state: a few tensors and facts, every byte of them under a checksum (ENG-117).

    8 bytes    TANDEM and the format's version
    4 + 4      length of the header, CRC-32 of the header
    header     JSON: fingerprint, kind, facts, and name, type and shape of each part
    parts      each one's bytes and then its checksum of 8 bytes

A checksum follows its part, so a part is written as it comes and checked alone: a resume reads the rows of many pieces
and the recurrent part of one. safetensors has none, and its reader maps files, where a page that turns bad or a file
that is cut raises no error but kills the process. So a part is read into memory, and the bytes that were checked are
the bytes that are used.

A file appears under its name whole or not at all: it is written beside it, brought to the disk, and renamed.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tandem.engine.caches.fingerprint import FORMAT

__all__ = ["TEMPORARY", "Damaged", "Part", "PieceFile", "Scratch", "checksum", "piece_bytes", "write_piece"]

TEMPORARY: Final = ".tmp"
"""What a file's name ends in until it is whole."""

_MAGIC: Final = b"TANDEM" + struct.pack("<H", FORMAT)
_LENGTHS: Final = struct.Struct("<II")
_SUM: Final = 8
_ROW: Final = 4096  # words
_TYPES: Final = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "I64": torch.int64}
_NAMES: Final = {dtype: name for name, dtype in _TYPES.items()}

Bytes: TypeAlias = npt.NDArray[np.uint8]


class Damaged(Exception):
    """A file that cannot be used: torn, flipped, of another fingerprint, gone. It is a miss and no reason to stop."""


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor of a file, before it is read."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize


def checksum(data: Bytes) -> bytes:
    """8 bytes that any change of up to three words changes for certain, and any other all but certainly.

    The words lie in rows of 32 KiB; summed are every row and every column. A CRC by zlib runs at 1.7 GB/s, which would
    be most of a resume from disk; this runs at that of the memory.
    """
    whole = len(data) - len(data) % (8 * _ROW)
    words = data[:whole].view(np.uint64).reshape(-1, _ROW)
    sums = words.sum(axis=0).tobytes() + words.sum(axis=1).tobytes()
    return blake2b(sums + data[whole:].tobytes(), digest_size=_SUM).digest()


def write_piece(
    path: Path, kind: str, fingerprint: str, facts: Mapping[str, Any], parts: Sequence[tuple[str, Tensor]]
) -> int:
    """Write a file, 0600, and give its size. `OSError` leaves nothing under the name, nor beside it."""
    head = _head(kind, fingerprint, facts, parts)
    beside = path.with_name(path.name + TEMPORARY)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            size = _write(file.fileno(), head)
            for _, tensor in parts:
                data = _bytes(tensor)
                size += _write(file.fileno(), data.data) + _write(file.fileno(), checksum(data))
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return size


def piece_bytes(kind: str, fingerprint: str, facts: Mapping[str, Any], parts: Sequence[tuple[str, Tensor]]) -> int:
    """The size of the file that `write_piece` would write."""
    return len(_head(kind, fingerprint, facts, parts)) + sum(tensor.nbytes + _SUM for _, tensor in parts)


class Scratch:
    """Memory that one part after another is read into: what stays in a processor's cache is not fetched again."""

    def __init__(self) -> None:
        self._held: Bytes = np.empty(0, dtype=np.uint8)

    def take(self, nbytes: int) -> Bytes:
        """So many bytes; those of the last call."""
        if len(self._held) < nbytes:
            self._held = np.empty(nbytes, dtype=np.uint8)
        return self._held[:nbytes]


@dataclass(slots=True)
class PieceFile:
    """A file whose header is right and whose length fits it; `with` closes it. `Damaged` from every method."""

    path: Path
    fingerprint: str
    kind: str
    facts: Mapping[str, Any]
    _descriptor: int = field(repr=False)
    _parts: Mapping[str, tuple[Part, int]] = field(repr=False)

    @staticmethod
    def open(path: Path) -> PieceFile:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise Damaged(f"{path.name} cannot be opened: {error.strerror}") from error
        try:
            header, at = _header(descriptor)
            parts, end = _places(
                (Part(name, _TYPES[dtype], tuple(shape)) for name, dtype, shape in header["parts"]), at
            )
            if (size := os.fstat(descriptor).st_size) != end:
                raise Damaged(f"it is {size} bytes long and should be {end}")
            return PieceFile(path, header["fingerprint"], header["kind"], header["facts"], descriptor, parts)
        except (Damaged, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            os.close(descriptor)
            raise Damaged(f"{path.name} is damaged: {error}") from error

    def __enter__(self) -> PieceFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self._parts)

    def read(self, name: str, scratch: Scratch | None = None) -> Tensor:
        """One part, checked: in memory of its own, or in `scratch` until that is taken again."""
        if name not in self._parts:
            raise Damaged(f"{self.path.name} has no part {name}")
        part, at = self._parts[name]
        data = np.empty(part.nbytes, dtype=np.uint8) if scratch is None else scratch.take(part.nbytes)
        try:
            _read(self._descriptor, data.data, at)
            stored = os.pread(self._descriptor, _SUM, at + part.nbytes)
        except OSError as error:
            raise Damaged(f"{self.path.name} cannot be read: {error.strerror}") from error
        if checksum(data) != stored:
            raise Damaged(f"{self.path.name} is damaged: the checksum of {name} is another")
        if not len(data):  # which torch does not view as another type
            return torch.empty(part.shape, dtype=part.dtype)
        return torch.from_numpy(data).view(part.dtype).reshape(part.shape)


def _head(kind: str, fingerprint: str, facts: Mapping[str, Any], parts: Sequence[tuple[str, Tensor]]) -> bytes:
    """All that stands before the parts."""
    table = [[name, _NAMES[tensor.dtype], list(tensor.shape)] for name, tensor in parts]
    header = json.dumps({"fingerprint": fingerprint, "kind": kind, "facts": facts, "parts": table}).encode()
    return _MAGIC + _LENGTHS.pack(len(header), zlib.crc32(header)) + header


def _header(descriptor: int) -> tuple[dict[str, Any], int]:
    """The header, and where the parts begin."""
    begin = os.pread(descriptor, len(_MAGIC) + _LENGTHS.size, 0)
    if len(begin) < len(_MAGIC) + _LENGTHS.size or not begin.startswith(_MAGIC):
        raise Damaged("it does not begin as one of this format")
    length, crc = _LENGTHS.unpack(begin[len(_MAGIC) :])
    if length > os.fstat(descriptor).st_size:
        raise Damaged("its header is longer than it")
    text = os.pread(descriptor, length, len(begin))
    if len(text) < length or zlib.crc32(text) != crc:
        raise Damaged("the checksum of its header is another")
    header: dict[str, Any] = json.loads(text)
    return header, len(begin) + length


def _places(parts: Iterable[Part], at: int) -> tuple[dict[str, tuple[Part, int]], int]:
    """Where each part begins, and where the last one ends."""
    places = {}
    for part in parts:
        places[part.name] = part, at
        at += part.nbytes + _SUM
    return places, at


def _bytes(tensor: Tensor) -> Bytes:
    data: Bytes = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return data


def _write(descriptor: int, data: bytes | memoryview) -> int:
    """All of it: one call writes at most 2 GiB, and less where a signal comes."""
    view, done = memoryview(data), 0
    while done < len(view):
        done += os.write(descriptor, view[done:])
    return done


def _read(descriptor: int, into: memoryview, at: int) -> None:
    done = 0
    while done < len(into):
        count = os.preadv(descriptor, [into[done:]], at + done)
        if not count:
            raise Damaged("the file ends within a part")
        done += count
