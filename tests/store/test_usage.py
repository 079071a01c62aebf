"""What is said of use: buckets, totals, speeds, lists, streaks."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tandem.store.outcome import Outcome
from tandem.store.spans import day_spans, hour_spans, moment_ms
from tandem.store.usage import Filters, summary_query, usage_query
from tests.store.ledgers import ask, new_ledger
from tests.store.samples import outcome

BERLIN = ZoneInfo("Europe/Berlin")
ZERO = ZoneInfo("UTC")
NOTHING = {"count": 0, "p10": None, "p50": None, "p90": None, "p99": None}


def at(text: str, zone: ZoneInfo = ZERO, **fields: Any) -> Outcome:
    """A request at a local time."""
    return outcome(ts_ms=moment_ms(datetime.fromisoformat(text).replace(tzinfo=zone)), **fields)


def days(first: str, last: str, zone: ZoneInfo = ZERO, filters: Filters | None = None) -> Any:
    spans = day_spans(date.fromisoformat(first), date.fromisoformat(last), zone)
    return usage_query(spans, zone, filters or Filters())


@pytest.mark.spec("OBS-088", "API-243")
def test_buckets_are_dense_and_local() -> None:
    rows = [
        at("2026-03-28T23:59:59.999", BERLIN),
        at("2026-03-29T00:00", BERLIN),
        at("2026-03-29T23:59", BERLIN, finish_reason="length"),
        at("2026-03-31T00:00", BERLIN),
    ]
    found = ask(new_ledger(*rows), days("2026-03-28", "2026-03-31", BERLIN))
    assert [bucket["requests"] for bucket in found["buckets"]] == [1, 2, 0, 1]
    assert [bucket["start"] for bucket in found["buckets"][:3]] == [
        "2026-03-28T00:00:00+01:00",
        "2026-03-29T00:00:00+01:00",
        "2026-03-30T00:00:00+02:00",
    ]
    assert (found["from"], found["to"]) == ("2026-03-28T00:00:00+01:00", "2026-04-01T00:00:00+02:00")
    empty = found["buckets"][2]
    assert set(empty["speed"]) == {"decode_tps", "ttft_ms", "prefill_tps"}
    assert all(spread == NOTHING for spread in empty["speed"].values())
    assert empty["prompt_tokens"] == 0
    assert found["buckets"][1]["finishes"]["length"] == 1
    assert found["totals"]["requests"] == 4


@pytest.mark.spec("OBS-088")
def test_the_hour_that_is_repeated_is_there_twice() -> None:
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 02:30 in summer time
    rows = [outcome(ts_ms=moment_ms(first + timedelta(hours=hour))) for hour in (0, 1, 1)]
    spans = hour_spans(first - timedelta(hours=1), first + timedelta(hours=2), BERLIN)
    found = ask(new_ledger(*rows), usage_query(spans, BERLIN, Filters()))
    assert [(bucket["start"][11:], bucket["requests"]) for bucket in found["buckets"]] == [
        ("01:00:00+02:00", 0),
        ("02:00:00+02:00", 1),
        ("02:00:00+01:00", 2),
        ("03:00:00+01:00", 0),
    ]


@pytest.mark.spec("OBS-088")
@pytest.mark.parametrize("name", ["Asia/Kathmandu", "Australia/Lord_Howe"])
def test_zones_between_the_hours(name: str) -> None:
    zone = ZoneInfo(name)
    rows = [at("2026-04-05T00:00", zone), at("2026-04-05T23:59:59", zone), at("2026-04-06T00:00", zone)]
    found = ask(new_ledger(*rows), days("2026-04-04", "2026-04-06", zone))
    assert [bucket["requests"] for bucket in found["buckets"]] == [0, 2, 1]


@pytest.mark.spec("OBS-088", "OBS-100")
def test_percentiles_of_buckets_and_of_all() -> None:
    chance = random.Random(7)
    rates = {day: [chance.lognormvariate(3.5, 0.5) for _ in range(200)] for day in ("2026-01-01", "2026-01-02")}
    rows = [at(f"{day}T{n % 24:02}:10", decode_tps=rate) for day in rates for n, rate in enumerate(rates[day])]
    found = ask(new_ledger(*rows, batch=50), days("2026-01-01", "2026-01-02"))
    spreads = [(bucket["speed"]["decode_tps"], rates[day]) for bucket, day in zip(found["buckets"], rates, strict=True)]
    spreads.append((found["totals"]["speed"]["decode_tps"], [*chain.from_iterable(rates.values())]))
    for spread, values in spreads:
        assert spread["count"] == len(values)
        for percent in (10, 50, 90, 99):
            exact = sorted(values)[len(values) * percent // 100 - 1]
            assert 1 / 1.1 <= spread[f"p{percent}"] / exact <= 1.1


def test_filters_choose_the_series() -> None:
    rows = [
        at("2026-01-01T01:00", model="a", client_id="k:1"),
        at("2026-01-01T01:00", model="a", client_id="k:2"),
        at("2026-01-01T02:00", model="b", client_id="k:2", prompt_tokens=1000),
        at("2026-01-01T03:00", client_id="k:2"),
    ]
    ledger = new_ledger(*rows)
    for filters, requests in (
        (Filters(), 4),
        (Filters(model="a"), 2),
        (Filters(client="k:2"), 3),
        (Filters(model="a", client="k:2"), 1),
        (Filters(model="nobody's"), 0),
    ):
        found = ask(ledger, days("2026-01-01", "2026-01-01", filters=filters))
        assert found["totals"]["requests"] == requests
        assert found["dimensions"] == {
            "models": [
                {"name": "a", "requests": 2, "total_tokens": 92},
                {"name": None, "requests": 1, "total_tokens": 46},
                {"name": "b", "requests": 1, "total_tokens": 1034},
            ],
            "clients": [
                {"name": "k:2", "requests": 3, "total_tokens": 1126},
                {"name": "k:1", "requests": 1, "total_tokens": 46},
            ],
        }
    outside = ask(ledger, days("2026-01-02", "2026-01-03"))
    assert outside["dimensions"] == {"models": [], "clients": []}


@pytest.mark.spec("OBS-087")
def test_top_days_are_those_of_the_most_tokens() -> None:
    rows = [at(f"2026-01-{day:02}T12:00", completion_tokens=day) for day in range(1, 15)]
    found = ask(new_ledger(*rows), days("2026-01-01", "2026-01-31"))
    assert [day["date"] for day in found["top_days"]] == [f"2026-01-{day:02}" for day in range(14, 4, -1)]
    assert found["top_days"][0] == {"date": "2026-01-14", "requests": 1, "total_tokens": 26}
    spans = hour_spans(datetime(2026, 1, 3, 12, tzinfo=ZERO), datetime(2026, 1, 4, 12, tzinfo=ZERO), ZERO)
    by_hour = ask(new_ledger(*rows), usage_query(spans, ZERO, Filters()))
    assert [day["date"] for day in by_hour["top_days"]] == ["2026-01-04", "2026-01-03"]


NOW = datetime(2026, 3, 31, 0, 30, tzinfo=BERLIN)


@pytest.mark.spec("OBS-087", "API-243")
def test_totals_of_a_summary() -> None:
    ago = [0, 1, 6, 7, 29, 30, 364, 365]
    rows = [
        at(f"{NOW.date() - timedelta(days)}T00:10", BERLIN, cached_tokens=4, reasoning_tokens=2, decode_tps=1.0)
        for days in ago
    ]
    found = ask(new_ledger(*rows), summary_query(NOW, BERLIN))
    requests = {name: total["requests"] for name, total in found["totals"].items()}
    assert requests == {"today": 1, "days_7": 3, "days_30": 5, "days_365": 7, "all": 8}
    week = found["totals"]["days_7"]
    tokens = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
    assert [week[name] for name in tokens] == [36, 12, 102, 6]
    assert (found["today"], found["first_day"]) == ("2026-03-31", "2025-03-31")
    assert len(found["top_days"]) == 8


@pytest.mark.spec("OBS-087")
@pytest.mark.parametrize(
    ("ago", "current", "longest"),
    [
        ([], 0, 0),
        ([0], 1, 1),
        ([1, 2], 2, 2),  # today is not over
        ([2, 3, 4], 0, 3),
        ([0, 1, 2, 9, 10, 11, 12, 13], 3, 5),
        ([-1, 0], 2, 2),  # the clock was set back
    ],
)
def test_streaks(ago: list[int], current: int, longest: int) -> None:
    rows = [at(f"{NOW.date() - timedelta(days)}T12:00", BERLIN) for days in ago for _ in range(2)]
    found = ask(new_ledger(*rows), summary_query(NOW, BERLIN))
    assert found["streaks"] == {"current": current, "longest": longest, "active_days": len(ago)}


def test_an_empty_ledger() -> None:
    found = ask(new_ledger(), summary_query(NOW, BERLIN))
    assert found["first_day"] is None
    assert found["top_days"] == []
    assert all(total["requests"] == 0 for total in found["totals"].values())
    found = ask(new_ledger(), days("2026-01-01", "2026-01-02"))
    assert [bucket["requests"] for bucket in found["buckets"]] == [0, 0]
    assert found["top_days"] == []
