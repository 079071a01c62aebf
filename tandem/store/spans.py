"""Local hours and days: the buckets of a chart as spans of time, safe across clock changes (OBS-088).

A day is as long as the zone makes it: 23, 24 or 25 hours, or none where the zone skipped it. An hour is the time for
which clocks show the same hour under the same offset, so the hour that a zone repeats is there twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby, pairwise
from zoneinfo import ZoneInfo

from tandem.store.buckets import QUARTER_S

__all__ = ["Span", "day_spans", "first_moment", "hour_spans", "local", "moment_ms"]

QUARTER = timedelta(seconds=QUARTER_S)


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` until before `end`, both in the zone."""

    start: datetime
    end: datetime

    @property
    def quarter(self) -> int:
        """Its first quarter of an hour."""
        return int(self.start.timestamp()) // QUARTER_S

    @property
    def end_quarter(self) -> int:
        """The first quarter behind it."""
        return int(self.end.timestamp()) // QUARTER_S


def day_spans(first: date, last: date, zone: ZoneInfo) -> list[Span]:
    """The days from `first` to `last`, both included."""
    starts = [first_moment(first + timedelta(days), zone) for days in range((last - first).days + 2)]
    return list(_between(starts))


def hour_spans(first: datetime, last: datetime, zone: ZoneInfo) -> list[Span]:
    """The local hours from the one that holds `first` to the one that holds `last`."""
    quarters = _quarters(first.astimezone(UTC), last.astimezone(UTC), zone)
    hours = [next(group) for _, group in groupby(quarters, lambda at: _clock(at, zone))]
    return [Span(start, end) for start, end in pairwise([*hours, _next_hour(hours[-1], zone)])]


def first_moment(day: date, zone: ZoneInfo) -> datetime:
    """When the day begins: at midnight, or at the moment at which the zone jumps over it."""
    # A midnight that is not there is read with the offset before the jump, which makes it the moment of the jump.
    return local(datetime.combine(day, time(), zone).astimezone(UTC), zone)


def local(moment: datetime, zone: ZoneInfo) -> datetime:
    """The moment on the zone's clocks."""
    return moment.astimezone(UTC).astimezone(zone)


def moment_ms(moment: datetime) -> int:
    """Milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def _between(starts: Sequence[datetime]) -> Iterator[Span]:
    for start, end in pairwise(starts):
        # Two moments of one zone are compared by their clocks, so by the seconds instead.
        if end.timestamp() > start.timestamp():
            yield Span(start, end)


def _quarters(first: datetime, last: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """The quarters from the beginning of the local hour of `first` to `last`, on the zone's clocks."""
    at = _hour_start(first, zone)
    while at <= last:
        yield local(at, zone)
        at += QUARTER


def _hour_start(moment: datetime, zone: ZoneInfo) -> datetime:
    at = datetime.fromtimestamp(int(moment.timestamp()) // QUARTER_S * QUARTER_S, UTC)
    hour = _clock(at, zone)
    while _clock(at - QUARTER, zone) == hour:
        at -= QUARTER
    return at


def _next_hour(start: datetime, zone: ZoneInfo) -> datetime:
    at = start.astimezone(UTC)
    while _clock(at, zone) == _clock(start, zone):
        at += QUARTER
    return local(at, zone)


def _clock(moment: datetime, zone: ZoneInfo) -> tuple[date, int, timedelta | None]:
    at = local(moment, zone)
    return at.date(), at.hour, at.utcoffset()
