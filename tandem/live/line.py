"""Who waits, where, why and how long yet, as the queue last said. Told everything: no clock, no channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tandem.live.event import Holder, QueueNow, Reason
from tandem.live.figures import ms, rounded
from tandem.live.seen import RequestSeen

__all__ = ["Line", "Why"]


@dataclass(frozen=True, slots=True)
class Why:
    """Why somebody waits, and how long yet: in seconds, and in words as coarse as a client is told."""

    reason: Reason = "running"
    estimate_s: float | None = None
    estimate: str | None = None


NO_REASON = Why()


@dataclass(slots=True)
class Line:
    """`holder` has what everybody in line waits for, the others run beside it; both are of the newest look."""

    waiting: int = 0
    places: Mapping[str, int] = field(default_factory=dict)
    lane: Sequence[str] = ()
    """Lane jobs that wait for a safe point, the next one first."""
    whys: Mapping[str, Why] = field(default_factory=dict)
    holder: Holder | None = None
    running: int = 0
    short: int = 0
    """Requests that wait for memory."""
    has_free_side: bool = False
    """A side slot is free: who is in line waits for slot 0 alone."""
    own: str | None = None
    """The own work that holds slot 0."""

    def order(self, request_id: str, last: int) -> tuple[int, int]:
        """Where one that waits for a slot stands among the rows: the lane before the line."""
        if request_id in self.lane:
            return 0, self.lane.index(request_id)
        return 1, self.places.get(request_id, last)

    def why(self, request_id: str) -> Why:
        return self.whys.get(request_id, NO_REASON)

    def queue(self, request_id: str, seen: RequestSeen, now: float) -> QueueNow:
        """What one that waits is told."""
        place: int | None
        why, is_lane = self.why(request_id), request_id in self.lane
        if seen.missing:
            why, place, of = Why("memory"), seen.memory_place, self.short
        elif is_lane:
            place, of = self.lane.index(request_id) + 1, len(self.lane)
        else:
            place, of = self.places.get(request_id), self.waiting
        return QueueNow(
            place=place,
            of=max(of, place or 1),
            waited_ms=ms(now - seen.arrived_at),
            timeout_s=None if seen.missing else seen.wait_s,
            reason=why.reason,
            estimate_s=rounded(why.estimate_s),
            is_lane=is_lane,
            missing_bytes=seen.missing or None,
            holder=self.holder,
        )
