"""The Prometheus metrics of one service, made from the outcomes of its requests (OBS-031 to OBS-041)."""

from __future__ import annotations

from tandem.store.outcome import Outcome

__all__ = ["Metrics"]


class Metrics:
    """Counters and histograms with a registry of their own, so that two services can share a process."""

    def ended(self, outcome: Outcome) -> None:
        """A completion request has ended."""

    def answered(self, path: str, status: int) -> None:
        """A response of any route has begun."""
