"""The last five minutes in samples of one second (OBS-059). No clock.

A second in which nothing ran is a sample of zeros; such samples are made when somebody asks, since the sampler sleeps
meanwhile. No other sample is ever made up.
"""

from __future__ import annotations

import math
from collections import deque

from tandem.live.event import Sample

__all__ = ["SAMPLES", "History"]

SAMPLES = 300
SAMPLE_S = 1.0


class History:
    """Samples, oldest first. `now` is on one clock, `wall` the same moment in seconds since 1970."""

    def __init__(self, now: float) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._until = float(math.floor(now))
        """Where the last sample ends."""

    @property
    def newest(self) -> Sample | None:
        return self._samples[-1] if self._samples else None

    def all(self) -> tuple[Sample, ...]:
        return tuple(self._samples)

    def fill(self, now: float, wall: float) -> None:
        """Nothing has run since the last sample."""
        self._until = max(self._until, math.floor(now) - SAMPLES * SAMPLE_S)
        while self._until + SAMPLE_S <= now:
            self._until += SAMPLE_S
            self._add(wall - (now - self._until), 0, 0, 0, 0, SAMPLE_S)

    def add(self, now: float, wall: float, *, written: int, forwarded: int, running: int, waiting: int) -> None:
        """What was written and read since the last sample, which lasts until now, and who runs and waits now."""
        spent = now - self._until
        if spent <= 0:
            return
        self._until = now
        self._add(wall, written, forwarded, running, waiting, spent)

    def _add(self, wall: float, written: int, forwarded: int, running: int, waiting: int, spent: float) -> None:
        self._samples.append(
            Sample(
                t=round(wall, 3),
                decode_tps=round(written / spent, 1),
                prefill_tps=round(forwarded / spent, 1),
                running=running,
                waiting=waiting,
                tokens=written,
            )
        )
