"""The suffix store: ids that requests read and wrote, kept over restarts for lookups (ENG-118, ENG-119).

A request appends one record to a log (`idlog`), a border behind each run. A log that is long enough becomes a sorted
file (`corpus`), and eight neighbours of one size become one, so few files are searched and little is sorted at a time.
A file is named for the logs it holds, `00000001-00000008.ids`, so what a larger one holds already, after a kill between
two renames, is seen by its name and removed.

Never text, hidden tokens or rows of images: `read_runs` leaves those out of a prompt, and what a cache supplied too, so
that a conversation is not logged again with each of its turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from tandem.engine.caches.folder import LockedFolder
from tandem.engine.drafting.corpus import BORDER, BYTES_PER_TOKEN, Corpus, CorpusRefused, join, write_corpus
from tandem.engine.drafting.grams import Grams
from tandem.engine.drafting.idlog import IdLog, foreign, records
from tandem.engine.drafting.matches import Match
from tandem.engine.drafting.suffixes import SHORTEST, Ids, agreed
from tandem.engine.text.prompt import Prompt

__all__ = ["Run", "Scope", "SuffixStore", "read_runs"]

Run: TypeAlias = tuple[int, int]
"""From an index up to another, excluded."""

Scope = Literal["all", "outputs"]

_SEAL, _FAN = 65_536, 8
"""Tokens at which a log is sorted, and neighbours of one size that become one file."""


def read_runs(prompt: Prompt, resumed: int, length: int) -> list[Run]:
    """The runs of rows `resumed` to below `length` of `prompt` that the client sent as text."""
    borders = [(image.start, image.stop) for image in prompt.images]
    borders += [(span.start, span.end) for span in prompt.spans if span.kind != "client"]
    runs, at = list[Run](), resumed
    for start, stop in [*sorted(borders), (length, length)]:
        if at < min(start, length):
            runs.append((at, min(start, length)))
        at = max(at, stop)
    return runs


class SuffixStore:
    """A directory of logs and sorted files, and the `Source` that they are. One process may write, others may read."""

    def __init__(
        self, path: Path, tokenizer: str, *, cap: int, scope: Scope = "all", readonly: bool = False, seal: int = _SEAL
    ) -> None:
        """`FolderRefused` where another process writes there, `CorpusRefused` where another tokenizer's ids are.

        `cap` in bytes of files. With `readonly` nothing is written, not even repaired.
        """
        self.trouble: str | None = None
        """Why nothing more is written, in one line."""
        self._path, self._tokenizer, self._cap, self._scope = path, tokenizer, cap, scope
        self._folder = None if readonly else LockedFolder(path)
        # A file of the largest size is an eighth of the cap at most, so dropping the oldest drops about half.
        self._most = max(_FAN, cap // BYTES_PER_TOKEN // 8)
        self._seal = max(1, min(seal, self._most // _FAN))
        self._log: IdLog | None = None
        self._number = 1
        self._recent: list[int] = []
        self._grams = Grams()
        self._sorted: list[tuple[int, int, Corpus]] = []
        self._hits = self._misses = self._evicted = 0
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def matches(self, last: Sequence[int], count: int, depth: int) -> list[Match]:
        found, least = self._recently(last, count, depth), SHORTEST
        for _, _, corpus in reversed(self._sorted):
            least = max([least, *(min(match.length, 8) for match in found)])
            found += corpus.matches(last, count, depth, least)
        self._hits, self._misses = self._hits + bool(found), self._misses + (not found)
        return sorted(found, key=lambda match: -match.length)[:count]

    def remember(self, history: Sequence[int], read: Iterable[Run], written: Iterable[Run]) -> None:
        """A request has ended that read and wrote these runs of `history`. Those that touch are one document."""
        if self._log is None or self.trouble is not None:
            return
        ids = join(history[start:stop] for start, stop in _joined([*(read if self._scope == "all" else ()), *written]))
        if not len(ids) or BYTES_PER_TOKEN * len(ids) > self._cap // 2:
            return
        try:
            self._log.append(ids)
            # What is sorted at once needs no other index.
            if len(self._recent) + len(ids) < self._seal:
                self._index(ids)
            else:
                self._recent += ids.tolist()
                self._seal_log()
                self._merge()
            self._evict()
        except OSError as error:
            self._give_up(error)

    def clear(self) -> int:
        """Remove all of it; bytes given up."""
        if self._log is None:
            return 0
        held = self.nbytes
        try:
            while self._sorted:
                first, last, _ = self._sorted.pop()
                self._remove(_sorted_name(first, last))
            self._renew()
        except OSError as error:
            self._give_up(error)
        return held - self.nbytes

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    @property
    def nbytes(self) -> int:
        log = self._log  # one look: the engine's thread may close it meanwhile
        return (0 if log is None else log.nbytes) + sum(corpus.nbytes for _, _, corpus in self._sorted)

    def documents(self) -> Iterator[list[int]]:
        """Every run that is kept, the oldest first."""
        for part in [*(corpus.ids for _, _, corpus in self._sorted), np.array(self._recent, np.int32)]:
            borders = np.flatnonzero(part == BORDER).tolist()
            for start, stop in zip([0, *(at + 1 for at in borders)], borders, strict=False):
                yield part[start:stop].tolist()

    def state(self) -> Mapping[str, int]:
        return {
            "suffix_store_bytes": self.nbytes,
            "suffix_store_hits": self._hits,
            "suffix_store_misses": self._misses,
            "suffix_store_evictions": self._evicted,
        }

    def _give_up(self, error: OSError) -> None:
        self.trouble = f"{self._path}: {error.strerror}; the suffix store keeps nothing more"

    def _open(self) -> None:
        names = [each.name for each in self._path.iterdir()] if self._path.is_dir() else []
        # Of two files that begin with one log the larger comes first, and the sorted one before the log itself.
        files = sorted(each for name in names if (each := _logs_of(name)) is not None)
        held = 0  # the last log that a sorted file holds
        for first, negative, is_log, name in files:
            if -negative <= held:
                self._remove(name)
            elif is_log:
                self._read_log(first)
            elif (corpus := self._corpus(self._path / name)) is not None:
                self._sorted.append((first, -negative, corpus))
                held = -negative
        self._number = max([self._number, held + 1])
        for name in names:
            if name.endswith(".partial"):
                self._remove(name)
        if self._folder is not None:
            self._log = IdLog(self._path / _log_name(self._number), self._tokenizer)
            self._evict()

    def _corpus(self, path: Path) -> Corpus | None:
        """None for a file that is damaged, and gone then."""
        try:
            return Corpus(path, self._tokenizer)
        except CorpusRefused as error:
            if error.foreign:
                raise self._foreign() from None
            self._remove(path.name)
            return None

    def _read_log(self, number: int) -> None:
        path = self._path / _log_name(number)
        if foreign(path, self._tokenizer):
            raise self._foreign()
        self._number = number
        for ids in records(path.read_bytes()):
            self._index(ids)

    def _foreign(self) -> CorpusRefused:
        return CorpusRefused(
            f"{self._path}: the suffix store there is of another tokenizer; name another directory", foreign=True
        )

    def _index(self, ids: Ids) -> None:
        known = len(self._recent)
        self._recent += ids.tolist()
        self._grams.add(self._recent, known + 1, len(self._recent))

    def _recently(self, last: Sequence[int], count: int, depth: int) -> list[Match]:
        found = []
        for end in self._grams.ends(last, count):
            follow = self._recent[end : end + depth]
            if BORDER in follow:
                follow = follow[: follow.index(BORDER)]
            if follow:
                found.append(Match(agreed(self._recent, end, last), follow))
        return found

    def _seal_log(self) -> None:
        """Sort what the log holds into a file of its own, and begin another."""
        number = self._number
        self._write(number, number, np.array(self._recent, np.int32))
        self._renew()

    def _merge(self) -> None:
        """Make one file of the newest ones, while as many as belong together have one size."""
        while len(self._sorted) >= _FAN:
            newest = self._sorted[-_FAN:]
            sizes = [corpus.tokens for _, _, corpus in newest]
            if max(sizes) >= _FAN * min(sizes) or sum(sizes) > self._most:
                return
            del self._sorted[-_FAN:]
            self._write(newest[0][0], newest[-1][1], np.concatenate([corpus.ids for _, _, corpus in newest]))
            for first, last, _ in newest:
                self._remove(_sorted_name(first, last))

    def _write(self, first: int, last: int, ids: Ids) -> None:
        path = self._path / _sorted_name(first, last)
        write_corpus(path, ids, self._tokenizer)
        self._sorted.append((first, last, Corpus(path, self._tokenizer)))

    def _renew(self) -> None:
        """Another log in place of the one that is open."""
        log, self._log = self._log, None  # a closed one is not to be left behind, should there be no other
        if log is not None:
            log.close()
        self._remove(_log_name(self._number))
        self._recent, self._grams, self._number = [], Grams(), self._number + 1
        self._log = IdLog(self._path / _log_name(self._number), self._tokenizer)

    def _evict(self) -> None:
        """Over the cap the oldest files go until half of it is left."""
        if self.nbytes <= self._cap:
            return
        while self._sorted and self.nbytes > self._cap // 2:
            first, last, _ = self._sorted.pop(0)
            self._remove(_sorted_name(first, last))
            self._evicted += 1

    def _remove(self, name: str) -> None:
        if self._folder is not None:
            (self._path / name).unlink(missing_ok=True)


def _joined(runs: Iterable[Run]) -> list[Run]:
    joined = list[Run]()
    for start, stop in runs:
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], stop
        else:
            joined.append((start, stop))
    return joined


def _log_name(number: int) -> str:
    return f"{number:08}.log"


def _sorted_name(first: int, last: int) -> str:
    return f"{first:08}-{last:08}.ids"


def _logs_of(name: str) -> tuple[int, int, bool, str] | None:
    """The first log that a file of this name holds, the last one with a minus, whether it is a log, and the name."""
    stem, _, kind = name.rpartition(".")
    first, _, last = stem.partition("-")
    if not first.isdigit() or (kind, last.isdigit()) not in (("log", False), ("ids", True)):
        return None
    return int(first), -int(last or first), kind == "log", name
