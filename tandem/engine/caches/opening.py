"""Where a prompt goes on, and which cache brought it there (ENG-106)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tandem.engine.caches.resident import Anchor, Anchors

__all__ = ["Opening", "source_of"]


@dataclass(frozen=True, slots=True)
class Opening:
    """Where a prompt goes on: at the newest of `anchors`, whose rows are in the buffer."""

    anchors: Anchors = field(repr=False)
    source: str = ""
    """The cache that answered: resident, end, parked, store, disk, disk_end; empty where none did (ENG-106)."""
    valid: int = 0
    """How many of those rows the last sequence left there, so that a drafter may know them."""

    @property
    def row(self) -> int:
        return self.anchors.newest

    @property
    def exact(self) -> int:
        """The highest row of bit class, 0 for none."""
        return max((anchor.row for anchor in self.anchors.all if anchor.exactness == "bit"), default=0)


def source_of(anchor: Anchor | None) -> str:
    if anchor is None:
        return ""
    return "resident" if anchor.exactness == "bit" else "end"
