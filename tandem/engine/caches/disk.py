"""The disk tier: grid chunks of a prefix in files, so that a prompt is not read again after a restart (ENG-116, 117).

Each chunk of `grid` rows is a file of keys and values, and beside it stands a file of the recurrent part at its end,
where the model has one and the anchor was kept; where a conversation's last answer ended there is a file of both, which
the next turn's replaces (`disk_prefix`). All are called by a digest of all ids below. A digest finds candidates only: a
file holds those ids, and all of them are compared (ENG-105). A resume at a line is bit class, one at an end text class
(ENG-073). A fault of any kind is a miss.

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

from tandem.engine.caches.caching import DiskView
from tandem.engine.caches.disk_index import OFF, DiskIndex, DiskSettings, Entry
from tandem.engine.caches.disk_prefix import Missing, Prefix, Way, furthest, start_of
from tandem.engine.caches.disk_writes import WriteJob
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
from tandem.engine.caches.resident import Anchor, Exactness
from tandem.engine.models.kv import KVRows
from tandem.engine.models.recurrent import NO_LAYERS, Recurrent

__all__ = ["DiskTier", "Restored"]

_EVENTS: Final = 50
_COUNTED: Final = ("hits", "misses", "saved_tokens", "written", "evictions", "damaged", "collisions")


class _OtherIds(Damaged):
    """Two prefixes have the same name (ENG-105)."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The first `row` rows are in place, those from `start` on by files."""

    row: int
    start: int
    exactness: Exactness
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
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._stopped = False
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

    def reach(self, ids: Sequence[int], have: int, beyond: int | None = None) -> int:
        """The row at which a prompt could resume, by the names alone; `have` where that gains nothing. No I/O.

        Rows below the line `have` are in place, of bit class and with an anchor there, or it is 0; those below
        `beyond`, as many where it is None, are in place in one class or the other.
        """
        way = self._way(self._prefix(ids[:-1]), have, have if beyond is None else beyond)
        return have if way is None else way.row

    def read(
        self, ids: Sequence[int], have: int, span: Span, now: float, *, beyond: int | None = None
    ) -> Restored | None:
        """Put rows in place, as far as a prompt can resume; None is a miss. `have` and `beyond` as for `reach`.

        Rows from `have` on may have been overwritten where it is a miss; else those from `start` on have been.
        """
        if self._settings.mode == "off":
            return None
        prefix, known = self._prefix(ids[:-1]), have if beyond is None else beyond
        # Each time round a file that failed is gone from the index, so there are fewer ways.
        while (way := self._way(prefix, have, known)) is not None:
            recurrent = self._recurrent_part(ids, way)
            if recurrent is not None and self._rows(ids, way, span):
                self._counts["hits"] += 1
                self._counts["saved_tokens"] += way.row - known
                self._use([*prefix.files(self._index, way.row), *(each.file for each in way.rows)], now, hit=True)
                return Restored(way.row, way.start, way.exactness, recurrent)
            known = have
        self._counts["misses"] += 1
        return None

    def ended(self, ids: Sequence[int], anchors: Sequence[Anchor]) -> None:
        """A turn of a conversation has ended, at the last of `anchors`; once a turn."""
        if self._settings.mode == "on" and anchors and anchors[-1].exactness == "text":
            self._prefix(ids).ended(self._index, anchors, self._settings.admit_after)

    def missing(self, ids: Sequence[int], anchors: Sequence[Anchor]) -> list[Missing]:
        """What of a sequence should be written, in order: its end too, where the last of `anchors` stands at one."""
        found: list[Missing] = []
        if self._settings.mode != "on" or self._stopped or not anchors:
            return found
        prefix, after = self._prefix(ids[: anchors[-1].row]), self._settings.admit_after
        bits = {anchor.row: anchor.recurrent for anchor in anchors if anchor.exactness == "bit"}
        found += prefix.missing(self._index, bits, after, recurrent=self._recurrent)
        if anchors[-1].exactness == "text":
            found += [each for each in prefix.end_missing(self._index, anchors, after) if each not in found]
        return found

    def job(self, ids: Sequence[int], missing: Missing, rows: KVRows | None) -> WriteJob | None:
        """To write one of them; None where there is no room. `rows` are a copy of its rows; an anchor has none."""
        recurrent, parts = missing.recurrent, [] if rows is None else rows_parts(rows)
        if recurrent is None:
            return self._job(ids, missing, {}, parts)
        return self._job(ids, missing, recurrent_facts(recurrent), [*recurrent_parts(recurrent), *parts])

    def written(self, job: WriteJob, outcome: int | OSError, now: float) -> None:
        """What came of a job. The first fault stops the writing, and says so once."""
        if job.entry.file not in self._index.writing:
            self._remove(job.entry.file)  # it was cleared while it was written
            return
        self._index.writing.discard(job.entry.file)
        if not isinstance(outcome, OSError):
            self._counts["written"] += 1
            self._index.add(replace(job.entry, size=outcome, used=now))
            self._use((*job.before, job.entry.file), now)
            for file in job.stale:
                self._drop(file)
        elif not self._stopped:
            self._stopped = True
            self.events.append(f"writing to {self._folder.path} stopped: {outcome.strerror or outcome}")

    def clear(self) -> int:
        """Remove every entry: the bytes given up. A file that is being written goes once it is there."""
        held = self._index.nbytes
        for file in self._index.files:
            self._remove(file)
        self._index = DiskIndex()
        return held

    def state(self) -> Mapping[str, int]:
        """What is held now, and what has come of it since the start."""
        held = {"bytes": self._index.nbytes, "entries": len(self._index), "stopped": int(self._stopped)}
        return {f"disk_{name}": count for name, count in (held | self._counts).items()}

    def top(self, count: int = 20) -> tuple[tuple[int, int, int], ...]:
        """The entries most used: row, bytes, uses."""
        return tuple((entry.row, entry.size, uses) for entry, uses in self._index.top(count))

    def view(self) -> DiskView:
        """See `Caching.disk`."""
        return DiskView(
            settings=self._settings,
            bytes=self._index.nbytes,
            free=self._folder.free(),
            hits=self._counts["hits"],
            misses=self._counts["misses"],
            top=self.top(),
            events=tuple(self.events),
        )

    def _prefix(self, ids: Sequence[int]) -> Prefix:
        return Prefix.of(ids, self._grid, self._fingerprint)

    def _way(self, prefix: Prefix, have: int, beyond: int) -> Way | None:
        return furthest(prefix, self._index, have, beyond, recurrent=self._recurrent)

    def _recurrent_part(self, ids: Sequence[int], way: Way) -> Recurrent | None:
        if way.recurrent is None:
            return NO_LAYERS
        try:
            with self._open(way.recurrent, ids) as file:
                return recurrent_of(file)
        except Damaged as error:
            self._damaged(way.recurrent, error)
            return None

    def _rows(self, ids: Sequence[int], way: Way, span: Span) -> bool:
        """Put all rows of a way in place; False where a file failed."""
        for entry in way.rows:
            try:
                with self._open(entry, ids) as file:
                    put_rows(file, span(start_of(entry.row, self._grid), entry.row), self._scratch)
            except Damaged as error:
                self._damaged(entry, error)
                return False
        return True

    def _open(self, entry: Entry, ids: Sequence[int]) -> PieceFile:
        """The file of an entry, once its fingerprint and all its ids have been compared; else `Damaged`."""
        file = PieceFile.open(self._folder.path / entry.file)
        try:
            if (file.fingerprint, file.kind) != (entry.fingerprint, entry.kind):
                raise Damaged(f"{entry.file} is of another fingerprint")
            if Keys.stored(file.read("ids").numpy(), file.facts.get("images")) != Keys.of(ids[: entry.row]):
                raise _OtherIds(f"{entry.file} is of other ids")
        except BaseException:
            file.close()
            raise
        return file

    def _job(
        self, ids: Sequence[int], missing: Missing, facts: Mapping[str, object], parts: Sequence[tuple[str, Tensor]]
    ) -> WriteJob | None:
        prefix, keys = self._prefix(ids[: missing.row]), Keys.of(ids[: missing.row])
        entry, before = prefix.entry(missing.row, missing.kind), prefix.files(self._index, missing.row)
        # What lies on a device is copied now: a captured graph may write where it lies.
        parts = [("ids", torch.from_numpy(keys.numbers)), *((name, tensor.cpu()) for name, tensor in parts)]
        facts = {"images": keys.images, **facts}
        size, free = piece_bytes(entry.kind, self._fingerprint, facts, parts), self._folder.free()
        victims = None if free is None else self._index.room(size, free, self._settings, before)
        if victims is None:
            return None
        self._evict(victims)
        self._index.writing.add(entry.file)
        stale = prefix.stale(self._index, entry)
        return WriteJob(self._folder.path / entry.file, entry, before, facts, parts, stale)

    def _use(self, files: Sequence[str], now: float, *, hit: bool = False) -> None:
        self._index.use(files, now, hit=hit)
        self._folder.touch(files, now)

    def _damaged(self, entry: Entry, error: Damaged) -> None:
        self._counts["collisions" if isinstance(error, _OtherIds) else "damaged"] += 1
        self.events.append(str(error))
        self._drop(entry.file)

    def _evict(self, files: Sequence[str]) -> None:
        for file in files:
            self._drop(file)
            self._counts["evictions"] += 1

    def _drop(self, file: str) -> None:
        self._index.remove(file)
        self._remove(file)

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
