"""What an engine's caches may take, as its operator sets it, in bytes (ENG-108 to ENG-121, ENG-124, ENG-132)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tandem.engine.caches.budget import CPU_BUDGETS, DEVICE_BUDGETS
from tandem.engine.caches.disk_index import OFF, DiskSettings
from tandem.engine.caches.heads import PINNED
from tandem.engine.caches.places import GUEST_MAX

__all__ = ["NO_CACHES", "CacheSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """All caches beside the resident prefix and the images, whose settings are the engine's own. 0 switches one off,
    None is the default of the device that the load finds (`on`).
    """

    guest_max: int = GUEST_MAX
    """A guest's prompt has at most so many tokens (ENG-109)."""
    stash: int | None = None
    park: int | None = None
    store: int | None = None
    prefix_cache: bool = True
    session_cache: bool = True
    """The two uses of the state store (ENG-114)."""
    pinned: int = PINNED
    """Heads whose anchors stay (ENG-112)."""
    disk: DiskSettings = OFF
    disk_folder: Path | None = None
    """Of this serving profile alone (ENG-176); None: there is no disk tier, whatever `disk` says."""
    spill_folder: Path | None = None
    """The same for the session spill; None: a drain writes nothing."""
    gate: bool = True
    mem_ceiling: int | None = None
    mem_peak: int | None = None
    """None: derived (ENG-124)."""

    def on(self, *, device: bool) -> CacheSettings:
        """With the defaults of a CUDA device, or of the CPU."""
        base = DEVICE_BUDGETS if device else CPU_BUDGETS
        return replace(
            self,
            stash=base.stash if self.stash is None else self.stash,
            park=base.parked if self.park is None else self.park,
            store=base.state_store if self.store is None else self.store,
        )

    @property
    def total(self) -> int:
        """Bytes of all of them in memory."""
        return (self.stash or 0) + (self.park or 0) + (self.store or 0)


NO_CACHES: Final = CacheSettings(stash=0, park=0, store=0, pinned=0, gate=False)
"""An engine with none of them."""
