"""The verbs of `Caching` on an engine that keeps nothing of itself (ENG-172)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tandem.engine.caches.caching import CacheStats, DiskView, MemoryView
from tandem.engine.errors import EngineError
from tandem.engine.text.replay import Written

if TYPE_CHECKING:  # torch, which these need, takes a second to import
    from tandem.engine.caches.disk_index import DiskSettings
    from tandem.engine.caches.disk_writes import WriteJob

__all__ = ["FakeCaching"]


class FakeCaching:
    """No cache is on."""

    def upkeep(self, now: float) -> WriteJob | None:
        return None

    def kept(self, job: WriteJob, outcome: int | OSError, now: float) -> None:
        """No job was given out."""

    def configure(self, disk: DiskSettings, now: float) -> None:
        """There is nothing to set."""

    def disk(self) -> DiskView | None:
        return None

    def spill(self) -> Mapping[str, int]:
        return {}

    def clear(self, caches: Collection[str] | None = None) -> Mapping[str, int]:
        if self.state()["open_sequences"]:
            raise EngineError("a sequence is open; caches are emptied between two requests")
        there = self.caches()
        if unknown := sorted(set(caches or ()) - set(there)):
            raise EngineError(f"no cache is called {unknown[0]}")
        return {name: there[name].bytes for name in (there if caches is None else caches)}

    def written(self) -> Sequence[Written]:
        return ()

    def caches(self) -> Mapping[str, CacheStats]:
        return {}

    def memory(self) -> MemoryView:
        return MemoryView()

    def state(self) -> Mapping[str, int]:
        raise NotImplementedError
