"""An engine's conversations on the disk: the disk tier with what is still to be written, and the spill (ENG-116, 121).

What a device computed lies on the host in a file and goes back to the device when it is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import torch

from tandem.engine.caches.copies import Copied
from tandem.engine.caches.disk import DiskTier, Restored
from tandem.engine.caches.disk_prefix import start_of
from tandem.engine.caches.disk_writes import PendingWrites, WriteJob
from tandem.engine.caches.folder import FolderRefused
from tandem.engine.caches.resident import Anchor
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.caches.spill import Place, Spilled, discard_spill, read_spill, spill
from tandem.engine.caches.stash import Stash
from tandem.engine.models.kv import KVRows
from tandem.engine.models.recurrent import LayerMemory, Recurrent
from tandem.engine.models.state import State

__all__ = ["Shelf"]

_NOTES: Final = 50


class Shelf:
    """Files of one fingerprint. A folder that cannot be used is a note, and the engine runs without that cache."""

    def __init__(self, state: State, grid: int, settings: CacheSettings, fingerprint: str, now: float) -> None:
        self._state = state
        self._grid = grid
        self._fingerprint = fingerprint
        self._spill_folder = settings.spill_folder
        self._pending = PendingWrites()
        self._beneath = PendingWrites()
        self._notes = deque[str](maxlen=_NOTES)
        self._tier: DiskTier | None = None
        if settings.disk_folder is not None:
            try:
                recurrent = state.bytes_per_anchor > 0
                self._tier = DiskTier(
                    settings.disk_folder, fingerprint, grid, recurrent=recurrent, settings=settings.disk, now=now
                )
            except FolderRefused as error:
                self._notes.append(str(error))

    @property
    def tier(self) -> DiskTier | None:
        return self._tier

    @property
    def notes(self) -> tuple[str, ...]:
        """For any thread."""
        events = () if self._tier is None else tuple(self._tier.events.copy())
        return (*self._notes.copy(), *events)

    def close(self) -> None:
        if self._tier is not None:
            self._tier.close()

    def saw(self, ids: tuple[int, ...]) -> None:
        """A request has this prompt."""
        if self._tier is not None:
            self._tier.saw(ids)

    def reach(self, ids: tuple[int, ...], have: int, beyond: int) -> int:
        """The row to which files could bring a prompt, `have` where none does; as `DiskTier.reach`."""
        return have if self._tier is None or self._tier.settings.mode == "off" else self._tier.reach(ids, have, beyond)

    def read(self, ids: tuple[int, ...], have: int, beyond: int, now: float) -> Restored | None:
        """As `DiskTier.read`."""
        assert self._tier is not None
        restored = self._tier.read(ids, have, self._state.kv.span, now, beyond=beyond)
        return restored and replace(restored, recurrent=self._placed(restored.recurrent))

    def plan(self, ids: tuple[int, ...], anchors: Sequence[Anchor]) -> None:
        """The buffer holds rows of `ids`; what of them is missing on the disk is written when there is time."""
        if self._tier is not None:
            exact = [each for each in anchors if each.exactness == "bit" and each.row <= len(ids)]
            self._pending.plan(ids, self._tier.missing(ids, exact))

    def ended(self, ids: tuple[int, ...], anchors: Sequence[Anchor]) -> None:
        """The same where an answer has ended, for its end as well."""
        if self._tier is not None:
            self._tier.ended(ids, anchors)
            self._pending.plan(ids, self._tier.missing(ids, anchors))

    def overwritten(self, row: int) -> None:
        """Rows of the buffer from `row` on are about to be written."""
        if len(self._pending):
            self._pending.overwritten(row)

    def upkeep(self, under: Stash | None) -> WriteJob | None:
        """The next file, its rows copied: of what is in the buffer, and then of the conversation `under` a guest."""
        if self._tier is None:
            return None
        if len(self._pending):
            return self._job(self._tier, self._pending, lambda start, end: self._state.kv.copy(end - start, start))
        if under is None:
            self._beneath.drop()
            return None
        if not len(self._beneath) or self._beneath.ids != under.held[0]:
            self._beneath.plan(under.held[0], self._tier.missing(*under.held))
        return self._job(self._tier, self._beneath, under.copy)

    def _job(self, tier: DiskTier, pending: PendingWrites, copy: Callable[[int, int], KVRows]) -> WriteJob | None:
        if (missing := pending.take()) is None:
            return None
        rows = None if missing.kind == "anchor" else copy(start_of(missing.row, self._grid), missing.row)
        job = tier.job(pending.ids, missing, rows)
        if job is None:
            pending.drop()
        return job

    def kept(self, job: WriteJob, outcome: int | OSError, now: float) -> None:
        if self._tier is not None:
            self._tier.written(job, outcome, now)
        if isinstance(outcome, OSError):
            self._pending.drop()
            self._beneath.drop()

    def clear(self) -> int:
        """Remove all files, a spill too: the bytes given up by the tier."""
        self._pending.drop()
        self._beneath.drop()
        self.discard_spill()
        return 0 if self._tier is None else self._tier.clear()

    def discard_spill(self) -> None:
        if self._spill_folder is not None:
            discard_spill(self._spill_folder)

    def spill(self, place: Place, copied: Copied | None) -> Mapping[str, int]:
        """Write a conversation for the next start, None: there is none. What cannot be written is noted."""
        folder = self._spill_folder
        if folder is None or copied is None or not copied.anchors:
            return {}
        try:
            size = spill(folder, place, self._fingerprint, _on_host(copied), _rows_on_host(copied.rows))
        except (OSError, RuntimeError, MemoryError) as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            self._notes.append(f"the {place} conversation was not spilled to {folder}: {why}")
            return {f"{place}_failed": 1}
        return {f"{place}_rows": len(copied.ids), f"{place}_bytes": size}

    def read_spill(self, place: Place) -> Spilled | None:
        """Put a spilled conversation's rows into the buffer."""
        if self._spill_folder is None:
            return None
        state = self._state
        spilled = read_spill(self._spill_folder, place, self._fingerprint, state.max_len, state.kv.span)
        if spilled is None:
            return None
        anchors = tuple(Anchor(each.row, each.exactness, self._placed(each.recurrent)) for each in spilled.anchors)
        return Spilled(spilled.ids, anchors)

    def state(self) -> Mapping[str, int]:
        return {} if self._tier is None else self._tier.state()

    def _placed(self, recurrent: Recurrent) -> Recurrent:
        """Where the model computes, in the types it computes in."""
        empty = self._state.empty
        if not empty.layers or empty.layers[0].matrix.device.type == "cpu":
            return recurrent
        return _moved(recurrent, empty.layers[0].matrix.device)


def _moved(recurrent: Recurrent, device: torch.device) -> Recurrent:
    layers = tuple(LayerMemory(each.matrix.to(device), each.tail.to(device)) for each in recurrent.layers)
    return Recurrent(recurrent.row, layers, recurrent.offset)


def _on_host(copied: Copied) -> Spilled:
    host = torch.device("cpu")
    anchors = (Anchor(each.row, each.exactness, _moved(each.recurrent, host)) for each in copied.anchors)
    return Spilled(copied.ids, tuple(anchors))


def _rows_on_host(rows: KVRows) -> KVRows:
    return KVRows(rows.keys.cpu(), rows.values.cpu())
