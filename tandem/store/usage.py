"""What the ledger says of use: figures by local hour or day, totals, top days, streaks (OBS-087, OBS-088, API-243).

Figures come from the table of `tandem.store.buckets` alone; no row of a request is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from tandem.store.buckets import FINISHES, METRICS, QUARTER_S, SUMS, By, percentiles, unpack
from tandem.store.query import Query, Rows, Statement
from tandem.store.spans import Span, day_spans, local

__all__ = ["PERCENTS", "Filters", "summary_query", "usage_query"]

PERCENTS = (10, 50, 90, 99)
TOP = 10
"""Days of a list of top days."""
NAMES = 100
"""Models and clients of a list to choose from, those of the most requests."""
PERIODS = {"today": 1, "days_7": 7, "days_30": 30, "days_365": 365}
"""Days of a total, today included."""

Numbers = npt.NDArray[np.int64]

_TOTAL = "sum(prompt_tokens + completion_tokens)"
_SERIES = (
    f"SELECT quarter, {', '.join((*SUMS, *METRICS))} FROM usage "
    "WHERE by_what = ? AND model = ? AND client = ? AND quarter >= ? AND quarter < ? ORDER BY quarter"
)
_ALL = f"SELECT quarter, {', '.join(SUMS)} FROM usage WHERE by_what = ? AND model = '' AND client = '' ORDER BY quarter"
_MODELS = (
    f"SELECT model, sum(requests), {_TOTAL} FROM usage "
    "WHERE by_what = ? AND quarter >= ? AND quarter < ? GROUP BY model ORDER BY 2 DESC, 1 LIMIT ?"
)
_CLIENTS = (
    f"SELECT client, sum(requests), {_TOTAL} FROM usage "
    "WHERE by_what = ? AND model = '' AND quarter >= ? AND quarter < ? GROUP BY client ORDER BY 2 DESC, 1 LIMIT ?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Whose requests count; None is everybody's."""

    model: str | None = None
    client: str | None = None

    @property
    def series(self) -> tuple[int, str, str]:
        """The series that holds just these."""
        by = (By.MODEL if self.model is not None else 0) | (By.CLIENT if self.client is not None else 0)
        return int(by), self.model or "", self.client or ""


def usage_query(spans: Sequence[Span], zone: ZoneInfo, filters: Filters) -> Query[dict[str, Any]]:
    """Figures of each span and of all together. The spans follow one another without a gap.

    The lists of models and clients are those of the whole time, whatever the filters: one chooses from them.
    """
    first, last = spans[0].quarter, spans[-1].end_quarter

    def fold(answers: Sequence[Rows]) -> dict[str, Any]:
        series, models, clients = answers
        sums, histograms = _by_span(series, spans)
        days = day_spans(spans[0].start.date(), (spans[-1].end - timedelta(microseconds=1)).date(), zone)
        return {
            "from": spans[0].start.isoformat(),
            "to": spans[-1].end.isoformat(),
            "buckets": _buckets(spans, sums, histograms),
            "totals": _figures(sums.sum(axis=0)) | {"speed": _speeds(_total(histograms))[0]},
            "top_days": _top_days(days, _sums_by_span(series, days)),
            "dimensions": {"models": _names(models), "clients": _names(clients)},
        }

    return Query(
        (
            Statement(_SERIES, (*filters.series, first, last)),
            Statement(_MODELS, (By.MODEL.value, first, last, NAMES)),
            Statement(_CLIENTS, (By.CLIENT.value, first, last, NAMES)),
        ),
        fold,
    )


def summary_query(now: datetime, zone: ZoneInfo) -> Query[dict[str, Any]]:
    """Totals up to now, streaks and top days of all that the ledger holds."""
    today = local(now, zone).date()

    def fold(answers: Sequence[Rows]) -> dict[str, Any]:
        (rows,) = answers
        days = day_spans(*_held(rows, zone, today), zone)
        sums = _sums_by_span(rows, days)
        dates = [day.start.date() for day in days]
        used = [day for day, requests in zip(dates, sums[:, 0].tolist(), strict=True) if requests]
        return {
            "today": today.isoformat(),
            "first_day": used[0].isoformat() if used else None,
            "totals": _periods(dates, sums, today),
            "streaks": _streaks(used, today),
            "top_days": _top_days(days, sums),
        }

    return Query((Statement(_ALL, (By.ALL.value,)),), fold)


def _by_span(rows: Rows, spans: Sequence[Span]) -> tuple[Numbers, list[Numbers]]:
    """Sums of each span, and for each metric a histogram of each."""
    first = 1 + len(SUMS)
    places = _places(rows, spans)
    histograms = [unpack([row[column] for row in rows], places, len(spans)) for column in _columns(first, METRICS)]
    return _sums_by_span(rows, spans), histograms


def _sums_by_span(rows: Rows, spans: Sequence[Span]) -> Numbers:
    sums = np.zeros((len(spans), len(SUMS)), np.int64)
    if rows:
        np.add.at(sums, _places(rows, spans), np.array([row[1 : 1 + len(SUMS)] for row in rows], np.int64))
    return sums


def _places(rows: Rows, spans: Sequence[Span]) -> Numbers:
    """The span of each row. A quarter from before the zone's offsets were even goes where it begins."""
    quarters = np.array([row[0] for row in rows], np.int64)
    starts = np.array([span.quarter for span in spans], np.int64)
    return np.maximum(np.searchsorted(starts, quarters, "right") - 1, 0)


def _columns(first: int, names: Sequence[str]) -> range:
    return range(first, first + len(names))


def _buckets(spans: Sequence[Span], sums: Numbers, histograms: Sequence[Numbers]) -> list[dict[str, Any]]:
    return [
        {"start": span.start.isoformat(), "end": span.end.isoformat(), **_figures(row), "speed": speed}
        for span, row, speed in zip(spans, sums, _speeds(histograms), strict=True)
    ]


def _figures(row: Numbers) -> dict[str, Any]:
    """One row of sums as the routes show it."""
    named = dict(zip(SUMS, row.tolist(), strict=True))
    finishes = {name: named.pop(name) for name in FINISHES}
    return {"requests": named.pop("requests"), "finishes": finishes, **named}


def _total(histograms: Sequence[Numbers]) -> list[Numbers]:
    return [counts.sum(axis=0, keepdims=True) for counts in histograms]


def _speeds(histograms: Sequence[Numbers]) -> list[dict[str, Any]]:
    """For each row of the histograms the percentiles of every metric."""
    spreads = [_spreads(counts) for counts in histograms]
    return [dict(zip(METRICS, row, strict=True)) for row in zip(*spreads, strict=True)]


def _spreads(counts: Numbers) -> list[dict[str, Any]]:
    names = ("count", *(f"p{percent}" for percent in PERCENTS))
    columns = (counts.sum(axis=1).tolist(), *percentiles(counts, *PERCENTS))
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _names(rows: Rows) -> list[dict[str, Any]]:
    return [{"name": name or None, "requests": requests, "total_tokens": tokens} for name, requests, tokens in rows]


def _top_days(days: Sequence[Span], sums: Numbers) -> list[dict[str, Any]]:
    """The days of the most tokens, then of the most requests; a day without requests is none."""
    listed = [
        {"date": days[place].start.date().isoformat(), "requests": requests, "total_tokens": tokens}
        for place, (requests, tokens) in enumerate(np.stack([sums[:, 0], _tokens(sums)], axis=1).tolist())
        if requests
    ]
    return sorted(listed, key=lambda day: (-day["total_tokens"], -day["requests"], day["date"]))[:TOP]


def _tokens(sums: Numbers) -> Numbers:
    """Input and output of each row."""
    total: Numbers = sums[:, [SUMS.index("prompt_tokens"), SUMS.index("completion_tokens")]].sum(axis=1)
    return total


def _held(rows: Rows, zone: ZoneInfo, today: date) -> tuple[date, date]:
    """The first and the last day of the rows, today included."""
    held = [local(datetime.fromtimestamp(row[0] * QUARTER_S, zone), zone).date() for row in (*rows[:1], *rows[-1:])]
    return min(*held, today) if held else today, max(*held, today) if held else today


def _periods(dates: Sequence[date], sums: Numbers, today: date) -> dict[str, Any]:
    """Days are counted by the calendar: one that the zone skipped counts too."""
    totals = {
        name: _figures(sums[[today - timedelta(days) < day <= today for day in dates]].sum(axis=0))
        for name, days in PERIODS.items()
    }
    return totals | {"all": _figures(sums.sum(axis=0))}


def _streaks(used: Sequence[date], today: date) -> dict[str, int]:
    """Days in a row with a request. The current streak lasts while yesterday had one: today is not over."""
    runs: list[int] = [1] if used else []
    for before, day in pairwise(used):
        if day - before == timedelta(1):
            runs[-1] += 1
        else:
            runs.append(1)
    lasts = bool(used) and used[-1] >= today - timedelta(1)
    return {"current": runs[-1] if lasts else 0, "longest": max(runs, default=0), "active_days": len(used)}
