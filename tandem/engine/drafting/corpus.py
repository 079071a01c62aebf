"""A corpus for lookups: a file of ids and their suffix array, memory-mapped (ENG-050). It never holds text.

One line of JSON, padded to `_HEAD` bytes, then the ids and then the array, both little-endian int32. An id of -1 stands
between two documents. Other ids of other tokenizers would propose nonsense, so the file names the tokenizer's sha256.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tandem.engine.drafting.matches import Match, found_in
from tandem.engine.drafting.suffixes import SHORTEST, Ids, Suffixes, suffix_array
from tandem.engine.errors import CheckpointError

__all__ = ["BORDER", "BYTES_PER_TOKEN", "Corpus", "CorpusRefused", "join", "write_corpus"]

BORDER = -1
BYTES_PER_TOKEN = 8
_HEAD = 512
_FORMAT = "tandem corpus 1"
_STORED = np.dtype("<i4")


class CorpusRefused(CheckpointError):
    """The file cannot be drafted from. One line: which file and why. `foreign`: its ids are another tokenizer's."""

    def __init__(self, message: str, *, foreign: bool = False) -> None:
        super().__init__(message)
        self.foreign = foreign


def join(documents: Iterable[Sequence[int]]) -> Ids:
    """All documents in one array, a border behind each."""
    parts = [np.array([*each, BORDER], np.int32) for each in documents if len(each)]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def write_corpus(path: Path, ids: Ids, tokenizer: str) -> None:
    """Sort and write `ids`, as `join` gives them. The file is there whole or not at all, mode 0600."""
    head = json.dumps({"format": _FORMAT, "tokenizer": tokenizer, "tokens": len(ids)}).encode()
    partial = path.with_name(path.name + ".partial")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(head.ljust(_HEAD - 1) + b"\n")
        file.write(ids.astype(_STORED).tobytes())
        file.write(suffix_array(ids).astype(_STORED).tobytes())
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


class Corpus:
    """An opened corpus: the system reads of the file what a lookup touches."""

    def __init__(self, path: Path, tokenizer: str) -> None:
        """`CorpusRefused` where `path` is no whole corpus of that tokenizer."""
        head = _head(path)
        self.path = path
        self.tokens = int(head["tokens"])
        if head["tokenizer"] != tokenizer:
            raise CorpusRefused(
                f"{path}: was built with another tokenizer ({head['tokenizer'][:12]}…, the model's is "
                f"{tokenizer[:12]}…); build it anew: tandem corpus build",
                foreign=True,
            )
        if path.stat().st_size != _HEAD + BYTES_PER_TOKEN * self.tokens:
            raise CorpusRefused(f"{path}: is not whole; build it anew: tandem corpus build")
        # A plain array over the map: numpy's own class for maps takes twice as long to be cut.
        numbers = np.asarray(np.memmap(path, np.uint8, "r"))[_HEAD:].view(_STORED)
        self._suffixes = Suffixes(numbers[: self.tokens], numbers[self.tokens :])

    @property
    def ids(self) -> Ids:
        return self._suffixes.ids

    @property
    def nbytes(self) -> int:
        return _HEAD + BYTES_PER_TOKEN * self.tokens

    def matches(self, last: Sequence[int], count: int, depth: int, least: int = SHORTEST) -> list[Match]:
        """As `Source` says, of matches of `least` tokens at least."""
        return found_in(self._suffixes, last, count, depth, least)


def _head(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            head = json.loads(file.read(_HEAD))
    except OSError as error:
        raise CorpusRefused(f"{path}: {error.strerror}") from error
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise CorpusRefused(f"{path}: is no corpus; tandem corpus build makes one")
    return head
