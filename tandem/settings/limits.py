"""How many requests are served at once, how long they wait, and what a request may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tandem.kinds import Choice, Flag, OnOff, Real, Whole
from tandem.settings.group import DAY_S, Group, setting

__all__ = ["LimitsSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LimitsSettings(Group):
    """How many requests are served at once, how long they wait, and what a request may be."""

    __slots__ = ()
    heading: ClassVar = "Limits and waiting"

    max_queue: int = setting(Whole(1, 10_000), 8, help="Requests that may wait; the next one gets a 503.")
    queue_timeout: float = setting(
        Real(0.01, DAY_S), 240.0, help="Longest wait of a request without a stream; then it gets a 429."
    )
    request_timeout: float = setting(
        Real(0.01, 7 * DAY_S), 3600.0, help="Longest generation, and longest wait of a streamed request."
    )
    max_body_mb: int = setting(Whole(1, 1024, "MB"), 64, help="Largest request body; a larger one gets a 413.")
    client_stall_s: float = setting(
        Real(0.01, DAY_S),
        60.0,
        help="A client that has taken nothing of its stream for this long counts as gone.",
    )
    parallel: int = setting(
        Whole(1, 16),
        1,
        help="Requests that are answered at once: one with the whole window, each further one in a side slot.",
    )
    side_max_len: int = setting(
        Whole(2, 2**24, "TOKENS"),
        65_536,
        help="Window of a side slot; a request that does not fit it waits for the whole one.",
    )
    parallel_floor_gb: float | None = setting(
        Real(0, 2**20, "GIB"),
        None,
        shown="15 where a CUDA board shares the memory, else 5 % of it, at least 1",
        help="GiB of memory that a side slot, or one more request beside others, must leave free.",
    )
    side_lane: Literal["on", "decode", "off"] = setting(
        Choice(("on", "decode", "off")),
        "on",
        help="Serve short requests between the steps of a running one; decode leaves its prefill alone.",
    )
    side_lane_prompt_max: int = setting(
        Whole(1, 2**24, "TOKENS"), 2_048, help="Longest prompt of a request that is served so."
    )
    side_lane_new_max: int = setting(Whole(1, 2**24, "TOKENS"), 64, help="Most output of a request that is served so.")
    turn_quantum_ms: float = setting(
        Real(1, 60_000, "MS"),
        50.0,
        help="GPU time by which a waiting slot must be behind before the turn changes hands.",
    )
    batch_timeout_ms: float = setting(
        Real(0, 60_000, "MS"),
        2.0,
        help="How long a round of several requests waits for one that is late, with the GPU unused.",
    )
    parallel_settle: bool = setting(
        OnOff(),
        True,
        help="Let the device finish before another slot's turn, so that each is measured by its own work alone.",
    )
    parallel_timing: bool = setting(
        Flag(), False, help="Measure what rounds take by how many requests share them; /health shows it."
    )
    stuck_s: float = setting(
        Real(0.01, DAY_S),
        120.0,
        help="A slot without a safe point for this long is reported as stuck in the log and in /health.",
    )
    conductor_watch_s: float = setting(Real(0.01, DAY_S), 30.0, help="How often the watchdog looks.")
