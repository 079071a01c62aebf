"""What the service starts with --conductor-config: the documents actor, and who is told of a change."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tandem.actors.documents import DocumentKeeper
from tandem.actors.keeper import Configure, KeeperMessage
from tandem.actors.kit import Blocking, Ref, WallClock
from tandem.actors.store import Store
from tandem.conductor.documents import Documents
from tandem.config import Settings

__all__ = ["document_keeper"]


class Parts(Protocol):
    """What it takes of `tandem.service.Parts`."""

    @property
    def conductor_dir(self) -> Path | None: ...

    @property
    def blocking(self) -> Blocking: ...

    @property
    def wall(self) -> WallClock: ...

    @property
    def store(self) -> Store: ...


def document_keeper(settings: Settings, parts: Parts, keeper: Ref[KeeperMessage]) -> DocumentKeeper | None:
    """None without a directory."""
    root = parts.conductor_dir or settings.conductor_dir
    if root is None:
        return None
    last = settings.disk_tier

    def configure(documents: Documents) -> bool:
        """The disk tier follows the settings document (MEM-014)."""
        nonlocal last
        disk = documents.settings.memory.disk_cache.over(settings.disk_tier)
        if disk != last and not keeper.offer(Configure(disk)):
            return False
        last = disk
        return True

    return DocumentKeeper(root, blocking=parts.blocking, wall=parts.wall, store=parts.store.ref, on_change=configure)
