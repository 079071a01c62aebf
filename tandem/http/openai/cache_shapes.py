"""The shapes of the two cache routes, as types: OpenAPI's schemas are made from them (API-062, API-063)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = ["CacheCounts", "CachesCleared", "CachesShown", "ClearRequest"]

Count: TypeAlias = Annotated[int, Meta(ge=0)]


class CacheCounts(Struct):
    """One cache that is on. Counts are since the start."""

    name: Annotated[
        str,
        Meta(description="resident, images, sessions, parked, disk, suffix or response: those that are on."),
    ]
    entries: Count
    bytes: Count
    budget_bytes: Annotated[Count | None, Meta(description="null: something else sets its size.")]
    hits: Count
    misses: Count
    evictions: Annotated[Count, Meta(description="Entries that had to go for others.")]
    rows: Annotated[Count | UnsetType, Meta(description="Of the resident prefix: the tokens that it holds.")] = UNSET
    anchors: Annotated[Count | UnsetType, Meta(description="Of the resident prefix: where a prompt resumes.")] = UNSET


class CachesShown(Struct):
    """All caches that are on."""

    model: str
    base_model: Annotated[str, Meta(description="The name of the model's files.")]
    caches: list[CacheCounts]


class ClearRequest(Struct):
    """Which caches to empty."""

    caches: Annotated[
        list[str] | None,
        Meta(description="Their names. All that are on, if absent; a name that is none of theirs is a 400."),
    ] = None


class CachesCleared(Struct):
    """What was given up."""

    freed_bytes: Annotated[dict[str, Count], Meta(description="By the names of the caches.")]
