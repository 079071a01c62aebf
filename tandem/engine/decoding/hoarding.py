"""The verbs over its caches that a `TorchEngine` has beside those of ENG-182: `tandem.engine.caches.caching`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tandem.engine.caches.caching import CacheStats, DiskView, MemoryView
from tandem.engine.caches.disk_index import DiskSettings
from tandem.engine.caches.disk_writes import WriteJob
from tandem.engine.caches.hoard import Hoard
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.errors import EngineError
from tandem.engine.text.replay import Written

__all__ = ["HoardingEngine"]


class HoardingEngine:
    """What moves rows is for the time between two requests: then no sequence is open and the engine is not lent."""

    _hoard: Hoard

    @property
    def is_idle(self) -> bool:
        raise NotImplementedError

    def upkeep(self, now: float) -> WriteJob | None:
        """As `Caching` says; nothing while a sequence is open."""
        return self._hoard.upkeep(now) if self.is_idle else None

    def kept(self, job: WriteJob, outcome: int | OSError, now: float) -> None:
        self._hoard.kept(job, outcome, now)

    def configure(self, disk: DiskSettings, now: float) -> None:
        if self._hoard.tier is not None:
            self._hoard.tier.configure(disk, now)

    def disk(self) -> DiskView | None:
        return None if self._hoard.tier is None else self._hoard.tier.view()

    def resize(self, caches: CacheSettings) -> None:
        """Other budgets of the caches in memory; what is above them goes now (ENG-132)."""
        self._require_idle("budgets change")
        self._hoard.resize(caches)

    def read_spill(self) -> None:
        """Take back what the last drain wrote; once, before the first request."""
        self._hoard.read_spill()

    def leave(self) -> None:
        """The engine serves no more: other processes may have its folders."""
        self._hoard.leave()

    def written(self) -> tuple[Written, ...]:
        """What `replay.finalise` finishes a prompt by, before it is opened (ENG-111, SCH-114)."""
        return self._hoard.written()

    def spill(self) -> Mapping[str, int]:
        self._require_idle("caches are spilled")
        return self._hoard.spill()

    def clear(self, caches: Collection[str] | None = None) -> Mapping[str, int]:
        """As `Caching` says. The resident rows lie in the buffer that is reserved for the window, which stays; the
        recurrent parts of its anchors are given back.
        """
        self._require_idle("caches are emptied")
        return self._hoard.clear(caches)

    def caches(self) -> Mapping[str, CacheStats]:
        return self._hoard.caches()

    def memory(self) -> MemoryView:
        return self._hoard.memory()

    def _require_idle(self, what: str) -> None:
        if not self.is_idle:
            raise EngineError(f"a sequence is open; {what} between two requests")
