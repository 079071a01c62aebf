"""When a stream is told that it waits, that its prompt is read, or that nothing comes: decisions of times given in.

Comments and pings go out every ten seconds (API-142, API-260), a heartbeat of the prefill at most once a second
(API-141). A stream with progress lines is looked at more often, for a line may be due then (STA-025).
"""

from __future__ import annotations

from tandem.http.entry import Limits
from tandem.http.events import Event, Prefilling, Waiting

__all__ = ["COMMENT_S", "Pacing"]

COMMENT_S = 10.0
LOOK_S = 1.0
FIRST_LOOK_S = 2.0
PREFILL_EVERY_S = 1.0
NEVER = float("inf")


class Pacing:
    """Of one request; times are those of trio's clock."""

    def __init__(self, arrived_at: float, limits: Limits, *, stream: bool) -> None:
        self.heartbeat_s = limits.prefill_heartbeat
        self.looks = stream and limits.looks
        self.running_since = 0.0
        """When the reading of the prompt began."""
        self._comment_at = arrived_at + COMMENT_S if stream else NEVER
        self._look_at = arrived_at + FIRST_LOOK_S if self.looks else NEVER
        self._told_at = arrived_at

    @property
    def wakes_at(self) -> float:
        """Until when a wait in the queue is left alone."""
        return min(self._comment_at, self._look_at)

    def woken(self, now: float) -> bool:
        """Whether a comment is due in the queue; what is due now is due again later."""
        is_due = now >= self._comment_at
        if is_due:
            self._comment_at += COMMENT_S
        self._looked(now)
        return is_due

    def silent_at(self, *, waits: bool) -> float:
        """Until when a granted request is left alone; `waits`: for memory."""
        silence = self._told_at + COMMENT_S
        return min(silence, self._look_at) if waits else silence

    def silent(self, now: float) -> bool:
        """Whether a ping is due, once such a time has passed."""
        self._looked(now)
        return now >= self._told_at + COMMENT_S

    def is_heartbeat_due(self, now: float) -> bool:
        is_long = self.heartbeat_s > 0 and now - self.running_since >= self.heartbeat_s
        return is_long and now - self._told_at >= PREFILL_EVERY_S

    def told(self, event: Event, now: float) -> None:
        """The event goes to the client; one that may be left unsaid breaks no silence."""
        if not isinstance(event, Waiting | Prefilling) or event.is_due:
            self._told_at = now

    def _looked(self, now: float) -> None:
        if now >= self._look_at:
            self._look_at = now + LOOK_S
