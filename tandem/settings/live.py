"""What the live view shows, and to how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tandem.kinds import Choice, OnOff, Whole
from tandem.settings.group import Group, setting

__all__ = ["LiveSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LiveSettings(Group):
    """What the live view shows, and to how many."""

    __slots__ = ()
    heading: ClassVar = "Live view"

    live_activity: bool = setting(
        OnOff(), True, help="Show what each request does; off leaves counters and rates alone."
    )
    live_hz: Literal["0", "1", "2", "4"] = setting(
        Choice(("0", "1", "2", "4")),
        "4",
        help="Live events a second while a request runs and somebody watches; 0 is as --live-activity off.",
    )
    live_max_readers: int = setting(
        Whole(1, 10_000), 64, help="Readers of the live view at once; the next one gets a 429."
    )
