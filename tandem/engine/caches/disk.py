"""The disk tier: grid chunks of a prefix in files, so that a prompt is not read again after a restart (ENG-116, 117).

Each chunk of `grid` rows is a file of keys and values, and beside it stands a file of the recurrent part at its end,
where the model has one and the anchor was kept; both are called by a digest of all ids below. A digest finds candidates
only: a file holds those ids, and all of them are compared (ENG-105). Files hold what prefills wrote on the grid, so a
resume is bit class (ENG-073). A fault of any kind is a miss.

One thread owns a tier; `state` and `top` may be called from any. What takes long, the writing of a file, is `write` of
a `WriteJob`, which touches nothing of the tier and may run in another thread. `now` is the wall clock in seconds, which
the times of files are compared with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from tandem.engine.caches.disk_index import OFF, DiskIndex, DiskSettings, Entry, Kind
from tandem.engine.caches.disk_writes import Missing, WriteJob
from tandem.engine.caches.folder import LockedFolder
from tandem.engine.caches.keys import Keys, chain
from tandem.engine.caches.parts import (
    Span,
    put_rows,
    recurrent_facts,
    recurrent_of,
    recurrent_parts,
    rows_parts,
)
from tandem.engine.caches.pieces import TEMPORARY, Damaged, PieceFile, Scratch, piece_bytes
from tandem.engine.models.kv import KVRows
from tandem.engine.models.recurrent import NO_LAYERS, Recurrent

__all__ = ["DiskTier", "Restored"]

_EVENTS: Final = 50
_KINDS: Final[tuple[Kind, ...]] = ("rows", "anchor")


@dataclass(frozen=True, slots=True)
class Restored:
    """The first `row` rows are in place."""

    row: int
    recurrent: Recurrent = field(default=NO_LAYERS, repr=False)


class DiskTier:
    """The files of one fingerprint in one folder. `FolderRefused` where it cannot be used at all.

    `recurrent` says whether the model has anything beside its rows. What a person should know is a line in `events`.
    """

    def __init__(
        self, folder: Path, fingerprint: str, grid: int, *, recurrent: bool, settings: DiskSettings = OFF, now: float
    ) -> None:
        self._folder = LockedFolder(folder)
        self._fingerprint = fingerprint
        self._grid = grid
        self._recurrent = recurrent
        self._scratch = Scratch()
        self._counts = dict.fromkeys(("hits", "misses", "saved_tokens", "written", "evictions", "damaged"), 0)
        self._stopped = False
        self._writing: set[str] = set()
        self.events: deque[str] = deque(maxlen=_EVENTS)
        self._index = DiskIndex(self._found())
        self._settings = settings
        self.configure(settings, now)

    def close(self) -> None:
        self._folder.close()

    @property
    def settings(self) -> DiskSettings:
        return self._settings

    def configure(self, settings: DiskSettings, now: float) -> None:
        """From the next request on. Writing that a fault has stopped is tried again where a setting has changed."""
        self._stopped = self._stopped and settings == self._settings
        self._settings = settings
        self._evict(self._index.expired(now, settings.ttl))
        self._evict(self._index.over(settings.budget))

    def saw(self, ids: Sequence[int]) -> None:
        """A request has a prompt of these key ids; once for each request."""
        if self._settings.mode == "on":
            self._index.saw(chain(ids, self._grid))

    def reach(self, ids: Sequence[int], have: int) -> int:
        """The line to which a prompt could resume, by the names alone; `have` where that gains nothing. No I/O."""
        return max(self._lines(have, chain(ids[:-1], self._grid)), default=have)

    def read(self, ids: Sequence[int], have: int, span: Span, now: float) -> Restored | None:
        """Put rows from the line `have` on in place, as far as a prompt can resume; None is a miss.

        Those below it are in place already, of bit class and with an anchor there, or it is 0. Rows from it on may have
        been overwritten whatever comes of it.
        """
        if self._settings.mode == "off":
            return None
        names, placed = chain(ids[:-1], self._grid), have
        # Each time round a file that failed is gone from the index, so there are fewer lines.
        while lines := self._lines(have, names):
            row = lines[-1]
            recurrent = self._anchor(ids, row, names)
            if recurrent is None:
                continue
            placed = max(placed, self._rows(ids, placed, row, names, span))
            if placed >= row:
                self._counts["hits"] += 1
                self._counts["saved_tokens"] += row - have
                self._use(self._chain(names[: row // self._grid]), now, hit=True)
                return Restored(row, recurrent)
        self._counts["misses"] += 1
        return None

    def missing(self, ids: Sequence[int], anchors: Mapping[int, Recurrent]) -> list[Missing]:
        """What of a sequence should be written, in order; `anchors` are those of bit class, by their rows."""
        found: list[Missing] = []
        if self._settings.mode != "on" or self._stopped:
            return found
        names = chain(ids[: max(anchors, default=0)], self._grid)
        for row in range(self._grid, len(names) * self._grid + 1, self._grid):
            if not self._index.admits(names[row // self._grid - 1], self._settings.admit_after):
                break
            if not self._has(self._entry(names, row, "rows")):
                found.append(Missing(row))
            if self._recurrent and row in anchors and not self._has(self._entry(names, row, "anchor")):
                found.append(Missing(row, anchors[row]))
        return found

    def job(self, ids: Sequence[int], missing: Missing, rows: KVRows | None) -> WriteJob | None:
        """To write one of them; None where there is no room. Where it is rows, `rows` are a copy of its `grid` rows."""
        if missing.recurrent is not None:
            recurrent = missing.recurrent
            return self._job(ids, missing.row, "anchor", recurrent_facts(recurrent), recurrent_parts(recurrent))
        assert rows is not None
        return self._job(ids, missing.row, "rows", {}, rows_parts(rows))

    def written(self, job: WriteJob, outcome: int | OSError, now: float) -> None:
        """What came of a job. The first fault stops the writing, and says so once."""
        if job.entry.file not in self._writing:
            self._remove(job.entry.file)  # it was cleared while it was written
            return
        self._writing.discard(job.entry.file)
        if not isinstance(outcome, OSError):
            self._counts["written"] += 1
            self._index.add(replace(job.entry, size=outcome, used=now))
            self._use((*job.before, job.entry.file), now)
        elif not self._stopped:
            self._stopped = True
            self.events.append(f"writing to {self._folder.path} stopped: {outcome.strerror or outcome}")

    def clear(self) -> int:
        """Remove every entry: the bytes given up. A file that is being written goes once it is there."""
        held = self._index.nbytes
        for file in self._index.files:
            self._remove(file)
        self._index = DiskIndex()
        self._writing.clear()
        return held

    def state(self) -> Mapping[str, int]:
        """What is held now, and what has come of it since the start."""
        held = {"bytes": self._index.nbytes, "entries": len(self._index), "stopped": int(self._stopped)}
        return {f"disk_{name}": count for name, count in (held | self._counts).items()}

    def top(self, count: int = 20) -> tuple[tuple[int, int, int], ...]:
        """The entries most used: row, bytes, uses."""
        return tuple((entry.row, entry.size, uses) for entry, uses in self._index.top(count))

    def _entry(self, names: Sequence[str], row: int, kind: Kind) -> Entry:
        return Entry(self._fingerprint, row, names[row // self._grid - 1], kind)

    def _has(self, entry: Entry) -> bool:
        """Whether it is there, or will be."""
        return entry.file in self._index or entry.file in self._writing

    def _lines(self, have: int, names: Sequence[str]) -> list[int]:
        """The lines above `have` at which a prompt can resume, by the index."""
        lines: list[int] = []
        for row in range(have + self._grid, len(names) * self._grid + 1, self._grid):
            if self._entry(names, row, "rows").file not in self._index:
                break
            if not self._recurrent or self._entry(names, row, "anchor").file in self._index:
                lines.append(row)
        return lines

    def _anchor(self, ids: Sequence[int], row: int, names: Sequence[str]) -> Recurrent | None:
        if not self._recurrent:
            return NO_LAYERS
        entry = self._entry(names, row, "anchor")
        try:
            with self._open(entry, ids) as file:
                return recurrent_of(file)
        except Damaged as error:
            self._damaged(entry, error)
            return None

    def _rows(self, ids: Sequence[int], start: int, end: int, names: Sequence[str], span: Span) -> int:
        """Put rows `start` to below `end` in place: how far that went."""
        for row in range(start + self._grid, end + 1, self._grid):
            entry = self._entry(names, row, "rows")
            try:
                with self._open(entry, ids) as file:
                    put_rows(file, span(row - self._grid, row), self._scratch)
            except Damaged as error:
                self._damaged(entry, error)
                return row - self._grid
        return end

    def _open(self, entry: Entry, ids: Sequence[int]) -> PieceFile:
        """The file of an entry, once its fingerprint and all its ids have been compared; else `Damaged`."""
        file = PieceFile.open(self._folder.path / entry.file)
        try:
            if (file.fingerprint, file.kind) != (entry.fingerprint, entry.kind):
                raise Damaged(f"{entry.file} is of another fingerprint")
            if Keys.stored(file.read("ids").numpy(), file.facts.get("images")) != Keys.of(ids[: entry.row]):
                raise Damaged(f"{entry.file} is of other ids")
        except BaseException:
            file.close()
            raise
        return file

    def _job(
        self, ids: Sequence[int], row: int, kind: Kind, facts: Mapping[str, object], parts: Sequence[tuple[str, Tensor]]
    ) -> WriteJob | None:
        names, keys = chain(ids[:row], self._grid), Keys.of(ids[:row])
        entry, before = self._entry(names, row, kind), self._chain(names)
        # What lies on a device is copied now: a captured graph may write where it lies.
        parts = [("ids", torch.from_numpy(keys.numbers)), *((name, tensor.cpu()) for name, tensor in parts)]
        facts = {"images": keys.images, **facts}
        size, free = piece_bytes(kind, self._fingerprint, facts, parts), self._folder.free()
        victims = None if free is None else self._index.room(size, free, self._settings, before)
        if victims is None:
            return None
        self._evict(victims)
        self._writing.add(entry.file)
        return WriteJob(self._folder.path / entry.file, entry, before, facts, parts)

    def _chain(self, names: Sequence[str]) -> tuple[str, ...]:
        """The files there are of a chain."""
        lines = range(self._grid, len(names) * self._grid + 1, self._grid)
        files = (self._entry(names, row, kind).file for row in lines for kind in _KINDS)
        return tuple(file for file in files if file in self._index)

    def _use(self, files: Sequence[str], now: float, *, hit: bool = False) -> None:
        self._index.use(files, now, hit=hit)
        self._folder.touch(files, now)

    def _damaged(self, entry: Entry, error: Damaged) -> None:
        self._counts["damaged"] += 1
        self.events.append(str(error))
        self._index.remove(entry.file)
        self._remove(entry.file)

    def _evict(self, files: Sequence[str]) -> None:
        for file in files:
            self._index.remove(file)
            self._remove(file)
            self._counts["evictions"] += 1

    def _remove(self, file: str) -> None:
        if (still := self._folder.remove(file)) is not None:
            self.events.append(still)

    def _found(self) -> list[Entry]:
        """The entries on the disk; those of another fingerprint and of writes that were cut short are removed."""
        entries = []
        for path in self._folder.files():
            entry = Entry.named(path.name.removesuffix(TEMPORARY))
            if entry is None:
                continue
            if path.name.endswith(TEMPORARY) or entry.fingerprint != self._fingerprint[:16]:
                self._remove(path.name)
            elif path.is_file():
                status = path.stat()
                entry = replace(entry, fingerprint=self._fingerprint, size=status.st_size, used=status.st_mtime)
                entries.append(entry)
        return entries
