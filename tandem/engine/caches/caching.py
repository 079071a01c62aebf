"""What the service asks of an engine's caches: verbs beside those of `tandem.engine.verbs` (ENG-123, ENG-132, ENG-133).

`upkeep`, `kept`, `configure`, `spill` and `clear` are called on the engine's thread between two requests, `disk`
between two verbs; `caches` and `memory` from any thread at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tandem.engine.caches.gate import Event
from tandem.engine.errors import EngineError

if TYPE_CHECKING:  # the slots know a refusal; torch, which these need, takes a second to import
    from tandem.engine.caches.disk_index import DiskSettings
    from tandem.engine.caches.disk_writes import WriteJob

__all__ = ["CacheStats", "Caching", "DiskView", "MemoryRefused", "MemoryView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """One cache: what it holds, and what has come of it since the load."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    collisions: int | None = None
    """Names that other ids had (ENG-105); None: it has no names, it finds by the ids themselves."""
    saved_tokens: int = 0
    entries: int = 0
    bytes: int = 0
    budget: int | None = None
    """None: its size is set by something else, as the resident rows' by the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """The gate's view of memory. Without a gate there are no limits and no events."""

    reserved: int = 0
    allocated: int = 0
    ceiling: int | None = None
    peak: int | None = None
    events: tuple[Event, ...] = ()
    """The newest, oldest first (ENG-127)."""
    sheds: int = 0
    """Times that caches gave up memory for others."""
    notes: tuple[str, ...] = ()
    """What a person should know of the files: a line each, without text of a conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskView:
    """The disk tier, as a person sees it; sizes in bytes."""

    settings: DiskSettings
    bytes: int
    free: int | None
    """On its drive; None where the system does not say."""
    hits: int
    misses: int
    top: tuple[tuple[int, int, int], ...]
    """The entries most used: row, bytes, uses."""
    events: tuple[str, ...]


class MemoryRefused(EngineError):
    """There is no room for a prompt's workspace (ENG-127). All numbers but the last two are bytes."""

    def __init__(self, told: str, *, numbers: Mapping[str, int]) -> None:
        """`numbers`: allocated, reserved, need, peak, in_a_row, retry_after."""
        super().__init__(told)
        self.numbers = numbers

    @property
    def retry_after(self) -> int:
        """Seconds after which the client may ask again (API-199)."""
        return self.numbers["retry_after"]


class Caching(Protocol):
    """The verbs."""

    def upkeep(self, now: float) -> WriteJob | None:
        """The next piece of state to be written to the disk, copied; `write` it in any thread. None: nothing is due."""

    def kept(self, job: WriteJob, outcome: int | OSError, now: float) -> None:
        """What came of a job."""

    def configure(self, disk: DiskSettings, now: float) -> None:
        """Settings of the disk tier, from the next request on."""

    def disk(self) -> DiskView | None:
        """The disk tier between two verbs; None: there is none."""

    def spill(self) -> Mapping[str, int]:
        """Write what a restart should find (ENG-121): rows and bytes of each conversation there is, or that it
        failed. At the drain's end.
        """

    def clear(self, caches: Collection[str] | None = None) -> Mapping[str, int]:
        """Empty the caches named, None: all; bytes given up by each (ENG-123). `EngineError` while a sequence is open
        or for a name that `caches` does not have.
        """

    def caches(self) -> Mapping[str, CacheStats]:
        """The caches that are on, by name: resident, images, sessions, parked, disk, suffix."""

    def memory(self) -> MemoryView: ...
