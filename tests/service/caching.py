"""A fake engine with caches: pieces that are to be written, a spill, and a gate that refuses when it is told to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from tandem.engine.caches.caching import CacheStats, MemoryRefused, MemoryView
from tandem.engine.caches.disk_index import Entry
from tandem.engine.caches.disk_writes import WriteJob
from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.sequence import FakeSeq
from tandem.engine.verbs import Prefilled

__all__ = ["CachingFake"]

NUMBERS = {"allocated": 3, "reserved": 4, "need": 5, "peak": 6, "in_a_row": 1, "retry_after": 10}


class CachingFake(FakeEngine):
    """`pieces` are due from the start; each takes `piece_s` to be copied. `outcomes` are what came of them."""

    def __init__(self, folder: Path, pieces: int = 0, piece_s: float = 0.0) -> None:
        super().__init__()
        self._folder = folder
        self._pieces = pieces
        self._piece_s = piece_s
        self.outcomes: list[int | OSError] = []
        self.asked_at: list[float] = []
        self.spills = 0
        self.refuses = False
        self.fails = False
        self.notes: tuple[str, ...] = ()
        self.held = {"resident": 70, "disk": 30}

    def prefill(self, seq: FakeSeq, upto: int) -> Prefilled:
        if self.refuses and seq.read:
            raise MemoryRefused("no memory for a prompt: need 5", numbers=NUMBERS)
        return super().prefill(seq, upto)

    def upkeep(self, now: float) -> WriteJob | None:
        assert self.state()["open_sequences"] == 0
        self.asked_at.append(now)
        if len(self.asked_at) > self._pieces:
            return None
        self._spend(1000 * self._piece_s)
        number = len(self.asked_at)
        return WriteJob(self._folder / f"piece-{number}", Entry("f" * 32, number, "a" * 32, "rows"), (), {}, [])

    def kept(self, job: WriteJob, outcome: int | OSError, now: float) -> None:
        self.outcomes.append(outcome)
        if isinstance(outcome, OSError):
            self._pieces = 0
            self.notes = (*self.notes, f"writing stopped: {outcome.strerror}")

    def spill(self) -> Mapping[str, int]:
        if self.fails:
            raise EngineError("the disk is gone")
        self.spills += 1
        return {"resident_rows": 5}

    def clear(self, caches: Collection[str] | None = None) -> Mapping[str, int]:
        if self.fails:
            raise EngineError("the disk is gone")
        freed = super().clear(caches)
        self.held |= dict.fromkeys(freed, 0)
        return freed

    def caches(self) -> Mapping[str, CacheStats]:
        return {name: CacheStats(bytes=size, entries=int(size > 0)) for name, size in self.held.items()}

    def state(self) -> Mapping[str, int]:
        return {**super().state(), "resident_rows": 7, "resident_anchors": 1, "kv_bytes": 700}

    def memory(self) -> MemoryView:
        return MemoryView(reserved=4, allocated=3, ceiling=5, peak=6, notes=self.notes)
