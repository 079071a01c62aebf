"""Caches an engine has beside those of conversations, and every cache's counters in one form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from tandem.engine.caches.caching import CacheStats

__all__ = ["Side", "Writing", "side_stats", "stats_of"]

_PREFIXES: Final = {"images": "image_cache_", "suffix": "suffix_store_"}
"""What names in a side's `state` begin with, by its name."""


class Side(Protocol):
    """The images' embeddings, the suffix store."""

    def clear(self) -> int:
        """Empty it: the bytes given up."""

    def state(self) -> Mapping[str, int]:
        """Counters; from any thread."""


@runtime_checkable
class Writing(Protocol):
    """A side that writes files."""

    trouble: str | None
    """Why it writes nothing more, in one line."""


def side_stats(name: str, counts: Mapping[str, int]) -> CacheStats:
    """Of the side with that name."""
    return stats_of(counts, _PREFIXES[name])


def stats_of(
    counts: Mapping[str, int], prefix: str, budget: int | None = None, *, entries: int | None = None
) -> CacheStats:
    """Those of `counts` that begin with `prefix`."""
    of = {name.removeprefix(prefix): count for name, count in counts.items() if name.startswith(prefix)}
    return CacheStats(
        hits=of.get("hits", 0),
        misses=of.get("misses", 0),
        evictions=of.get("evictions", 0),
        collisions=of.get("collisions"),
        saved_tokens=of.get("saved_tokens", of.get("saved_rows", 0)),
        entries=of.get("entries", of.get("images", 0)) if entries is None else entries,
        bytes=of.get("bytes", 0),
        budget=budget,
    )
