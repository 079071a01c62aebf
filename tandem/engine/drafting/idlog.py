"""A log of ids on disk: appended to, never rewritten; what a kill left half written is cut off (ENG-118).

A line of JSON that names the tokenizer, then records: how many ids, the CRC of their bytes, and they as int32.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tandem.engine.drafting.suffixes import Ids

__all__ = ["IdLog", "foreign", "records"]

_FORMAT = "tandem suffixes 1"
_RECORD = struct.Struct("<II")


class IdLog:
    """A log that is open for writing."""

    def __init__(self, path: Path, tokenizer: str) -> None:
        """Made anew where it is missing or its head is torn; otherwise cut behind its last whole record."""
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        head = _head(tokenizer)
        data = path.read_bytes()
        if data.startswith(head):
            self.nbytes = len(head) + sum(_RECORD.size + 4 * len(ids) for ids in records(data))
            os.ftruncate(self._file, self.nbytes)
        else:
            os.ftruncate(self._file, 0)
            self.nbytes = os.write(self._file, head)

    def append(self, ids: Ids) -> None:
        """One record, whole or not at all; `OSError` where the disk does not take it."""
        payload = ids.astype("<i4").tobytes()
        record = _RECORD.pack(len(ids), zlib.crc32(payload)) + payload
        try:
            if os.write(self._file, record) != len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._file, self.nbytes)
            raise
        self.nbytes += len(record)

    def close(self) -> None:
        os.close(self._file)


def foreign(path: Path, tokenizer: str) -> bool:
    """Whether the log at `path` names another tokenizer. One whose head is torn names none."""
    with path.open("rb") as file:
        line = file.readline(len(_head(tokenizer)) + 256)
    if not line.endswith(b"\n") or line == _head(tokenizer):
        return False
    try:
        head = json.loads(line)
    except ValueError:
        return False
    return isinstance(head, dict) and head.get("format") == _FORMAT


def records(data: bytes) -> Iterator[Ids]:
    """The ids of a log's whole records; what comes behind the first that is not one is torn."""
    at = data.find(b"\n") + 1
    while at and at + _RECORD.size <= len(data):
        count, crc = _RECORD.unpack_from(data, at)
        payload = data[at + _RECORD.size : at + _RECORD.size + 4 * count]
        if not count or len(payload) != 4 * count or zlib.crc32(payload) != crc:
            return
        yield np.frombuffer(payload, "<i4").astype(np.int32)
        at += _RECORD.size + len(payload)


def _head(tokenizer: str) -> bytes:
    return json.dumps({"format": _FORMAT, "tokenizer": tokenizer}).encode() + b"\n"
