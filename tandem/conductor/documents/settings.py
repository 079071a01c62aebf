"""The settings document: what holds for all profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import asdict

from tandem.conductor.documents.words import Name, Section

__all__ = ["DiskCacheSettings", "MemorySettings", "SettingsDocument", "TranscriptSettings"]


Gigabytes = Annotated[float, Meta(ge=0, le=1_048_576)]


class JournalSettings(Section, frozen=True):
    days: Annotated[int, Meta(ge=1, le=3650, description="How long journal rows are kept.")] = 30


class TranscriptSettings(Section, frozen=True):
    scope: Annotated[Literal["tools", "all", "none"], Meta(description="Which requests are written down.")] = "tools"
    retention_days: Annotated[int, Meta(ge=1, le=3650, description="How long transcripts are kept.")] = 30
    clip_chars: Annotated[int, Meta(ge=100, le=1_000_000, description="Results and calls are cut here.")] = 4000


class DiskCacheSettings(Section, frozen=True):
    """An absent key stands as the server was started (--disk-cache and its kind), which is off unless set (MEM-014)."""

    mode: Annotated[
        Literal["off", "read", "on"] | None, Meta(description="Keep computed prefixes on the disk; read writes none.")
    ] = None
    budget_gb: Annotated[Gigabytes | None, Meta(description="The most it may take.")] = None
    ttl_days: Annotated[
        Annotated[float, Meta(ge=0, le=36_500)] | None, Meta(description="What was not used for so long goes.")
    ] = None
    admit_after: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None, Meta(description="Written once seen in so many prompts.")
    ] = None
    min_free_gb: Annotated[Gigabytes | None, Meta(description="Free space the drive keeps.")] = None

    def over(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """`base`, the server's own settings by the same keys, with what the document says."""
        return {**base, **{name: value for name, value in asdict(self).items() if value is not None}}


class MemorySettings(Section, frozen=True):
    transcripts: Annotated[TranscriptSettings, Meta(description="Session transcripts.")] = TranscriptSettings()
    disk_cache: Annotated[DiskCacheSettings, Meta(description="The disk tier of the caches.")] = DiskCacheSettings()


class SettingsDocument(Section, frozen=True):
    default_profile: Annotated[Name, Meta(description="The profile where nothing else names one.")] = "general"
    tools_profile: Annotated[
        str,
        Meta(
            pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$",
            description="The profile of requests with tools from clients no profile lists. Empty: no such rule.",
        ),
    ] = "tools"
    journal: Annotated[JournalSettings, Meta(description="The journal.")] = JournalSettings()
    memory: Annotated[MemorySettings, Meta(description="Transcripts and the disk tier.")] = MemorySettings()
