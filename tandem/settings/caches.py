"""What is kept from one request for the next, in memory and on the disk, and what that may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tandem.kinds import Choice, Flag, OnOff, Real, Whole
from tandem.settings.group import DAY_S, Group, setting

__all__ = ["CachesSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class CachesSettings(Group):
    """What is kept from one request for the next, in memory and on the disk, and what that may take."""

    __slots__ = ()
    heading: ClassVar = "Caches"

    resident_guest_max: int = setting(
        Whole(0, 4_194_304),
        8192,
        help="Longest prompt that is a guest: a title, say, after which the conversation goes on where it was.",
    )
    resident_stash_gb: float | None = setting(
        Real(0, 4096, "GB"),
        None,
        shown="0.125 on the CPU, 2 on a GPU",
        help="Memory for the rows of the conversation that a guest overwrites; 0 lets it overwrite them.",
    )
    park_gb: float | None = setting(
        Real(0, 4096, "GB"),
        None,
        shown="0.5 on the CPU, 4 on a GPU",
        help="Memory for a conversation that another has replaced, so that two can alternate; 0 parks none.",
    )
    cache_budget_gb: float | None = setting(
        Real(0, 4096, "GB"),
        None,
        shown="0.5 on the CPU, 8 on a GPU",
        help="Memory for states of conversations that are neither in place nor parked; 0 keeps none.",
    )
    no_session_cache: bool = setting(
        Flag(), False, help="Keep no states of prompt ends among them, where a session goes on."
    )
    no_prefix_cache: bool = setting(
        Flag(), False, help="Keep no states of grid lines among them, where prompts begin alike."
    )
    disk_cache: Literal["off", "read", "on"] = setting(
        Choice(("off", "read", "on")),
        "off",
        help="Keep what prompts have in common on the disk under STATE, for after a restart; read writes nothing.",
    )
    disk_cache_gb: float = setting(
        Real(0, 1_048_576, "GB"), 100.0, help="Size of the disk cache; the longest unused goes first."
    )
    disk_cache_ttl_days: float = setting(
        Real(0, 36_500, "DAYS"), 14.0, help="Days that an entry of the disk cache stays unused."
    )
    disk_cache_admit_after: int = setting(
        Whole(1, 1000), 2, help="Prompts that must have held a chunk before it goes to the disk."
    )
    disk_cache_min_free_gb: float = setting(
        Real(0, 1_048_576, "GB"), 50.0, help="What the disk cache leaves free on its disk."
    )
    spill: bool = setting(
        OnOff(),
        True,
        help="Write the conversation to STATE when the server stops, and read it back when it starts.",
    )
    response_cache: bool = setting(
        OnOff(),
        False,
        help="Answer an identical request at temperature 0 from memory. A request with Cache-Control: no-cache is "
        "computed, one with no-store leaves nothing there.",
    )
    response_cache_mb: int = setting(
        Whole(1, 1_048_576, "MB"), 64, help="Memory for such answers; the longest unused goes first."
    )
    response_cache_ttl: float = setting(Real(0.01, 365 * DAY_S), 3600.0, help="Seconds that such an answer stays.")
    summary_ahead: bool = setting(
        Flag(),
        False,
        help="Write summaries that the conductor foresees ahead, while no request runs.",
    )
    mem_ceiling_gib: float | None = setting(
        Real(0.01, 4096, "GIB"),
        None,
        shown="what the load takes, and all caches",
        help="Memory that the engine comes back under between two requests, giving up caches where it must.",
    )
    mem_peak_gib: float | None = setting(
        Real(0.01, 4096, "GIB"),
        None,
        shown="what the machine allows on the CPU; on a GPU the ceiling, and reading the longest prompt",
        help="Memory that the engine never takes more of; a prompt that would is refused with a 503.",
    )

    @property
    def disk_tier(self) -> dict[str, Any]:
        """The disk tier by the keys of the settings document's `memory.disk_cache`, whose absent keys these are."""
        return {
            "mode": self.disk_cache,
            "budget_gb": self.disk_cache_gb,
            "ttl_days": self.disk_cache_ttl_days,
            "admit_after": self.disk_cache_admit_after,
            "min_free_gb": self.disk_cache_min_free_gb,
        }
