"""Local days and hours across clock changes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.store.buckets import QUARTER_S
from tandem.store.spans import Span, day_spans, hour_spans

BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
KATHMANDU = ZoneInfo("Asia/Kathmandu")
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "America/Havana")


def hours(span: Span) -> float:
    return (span.end.timestamp() - span.start.timestamp()) / 3600


def hours_of(day: date, zone: ZoneInfo) -> list[str]:
    """Each hour of a day as its start and its minutes."""
    (whole,) = day_spans(day, day, zone)
    found = hour_spans(whole.start, (whole.end.astimezone(UTC) - timedelta(seconds=1)).astimezone(zone), zone)
    return [f"{span.start:%H:%M%z} {hours(span) * 60:.0f}" for span in found]


@pytest.mark.spec("OBS-088")
@pytest.mark.parametrize(
    ("zone", "day", "length"),
    [
        (BERLIN, date(2026, 3, 29), 23),
        (BERLIN, date(2026, 10, 25), 25),
        (BERLIN, date(2026, 6, 1), 24),
        (LORD_HOWE, date(2026, 10, 4), 23.5),
        (LORD_HOWE, date(2026, 4, 5), 24.5),
        (KATHMANDU, date(2026, 3, 29), 24),
        (ZoneInfo("America/Sao_Paulo"), date(2018, 11, 4), 23),  # it begins at one
    ],
)
def test_a_day_is_as_long_as_its_zone_makes_it(zone: ZoneInfo, day: date, length: float) -> None:
    (span,) = day_spans(day, day, zone)
    assert (span.start.date(), hours(span)) == (day, length)


def test_a_day_that_the_zone_skipped_is_not_there() -> None:
    days = day_spans(date(2011, 12, 29), date(2011, 12, 31), ZoneInfo("Pacific/Apia"))
    assert [span.start.date() for span in days] == [date(2011, 12, 29), date(2011, 12, 31)]
    assert [hours(span) for span in days] == [24, 24]


@pytest.mark.spec("OBS-088")
def test_hours_of_berlin() -> None:
    spring = hours_of(date(2026, 3, 29), BERLIN)
    assert spring[1:4] == ["01:00+0100 60", "03:00+0200 60", "04:00+0200 60"]
    assert len(spring) == 23
    autumn = hours_of(date(2026, 10, 25), BERLIN)
    assert autumn[1:5] == ["01:00+0200 60", "02:00+0200 60", "02:00+0100 60", "03:00+0100 60"]
    assert len(autumn) == 25


@pytest.mark.spec("OBS-088")
def test_hours_of_zones_that_are_off_by_less_than_one() -> None:
    assert hours_of(date(2026, 10, 4), LORD_HOWE)[1:4] == ["01:00+1030 60", "02:30+1100 30", "03:00+1100 60"]
    assert hours_of(date(2026, 4, 5), LORD_HOWE)[:4] == [
        "00:00+1100 60",
        "01:00+1100 60",
        "01:30+1030 30",
        "02:00+1030 60",
    ]
    (midnight, *_, last) = hours_of(date(2026, 1, 2), KATHMANDU)
    assert (midnight, last) == ("00:00+0545 60", "23:00+0545 60")


def test_hours_hold_both_ends() -> None:
    first = datetime(2026, 1, 2, 10, 59, 59, tzinfo=KATHMANDU)
    found = hour_spans(first, first + timedelta(seconds=1), KATHMANDU)
    assert [f"{span.start:%H:%M}" for span in found] == ["10:00", "11:00"]
    assert [f"{span.end:%H:%M}" for span in found] == ["11:00", "12:00"]


@pytest.mark.spec("OBS-088")
@given(
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    first=st.dates(date(2015, 1, 1), date(2030, 1, 1)),
    days=st.integers(0, 40),
    by_hour=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_spans_are_dense_and_of_whole_quarters(zone: ZoneInfo, first: date, days: int, by_hour: bool) -> None:
    spans = day_spans(first, first + timedelta(days), zone)
    if by_hour:
        spans = hour_spans(spans[0].start, spans[0].end, zone)
    assert all(before.end == after.start for before, after in pairwise(spans))
    assert all(0 < span.quarter < span.end_quarter for span in spans)
    for span in spans:
        assert span.start.timestamp() % QUARTER_S == span.end.timestamp() % QUARTER_S == 0
        assert span.start.utcoffset() == span.start.astimezone(UTC).astimezone(zone).utcoffset()
