"""The time zone and the span of time that the URL of a chart asks for (API-243)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from tandem.http.openai.errors import invalid
from tandem.http.query import Parameters
from tandem.store.spans import Span, day_spans, first_moment, hour_spans, local

__all__ = ["BUCKETS", "DAYS", "HOUR_DAYS", "read_spans", "read_zone"]

BUCKETS = ("day", "hour")
DAYS = 1100
"""The most days of one answer: three years."""
HOUR_DAYS = 31
"""The same by the hour."""
SHOWN = {"day": 30, "hour": 2}
"""Days of an answer whose URL names no `from`."""
YEARS = range(1970, 9999)


def read_zone(parameters: Parameters) -> ZoneInfo:
    """The zone that `tz` names, UTC where there is none. Raises `ApiError` 400 for a name that is not in the tz
    database."""
    name = parameters.text("tz") or "UTC"
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, no relative path, a folder of the database
        raise invalid("tz", f"tz must be a time zone's name, such as Europe/Berlin; {name!r} is none") from None


def read_spans(parameters: Parameters, bucket: str, zone: ZoneInfo, now: datetime) -> list[Span]:
    """The buckets that `from` and `to` ask for, both included: a date means its whole day, a time its bucket.

    Without `to` they reach to the present, without `from` over the newest 30 days, or 2 by the hour.
    """
    end = _read(parameters, "to", zone)
    last = _end(local(now, zone) if end is None else end, zone)
    start = _read(parameters, "from", zone)
    first = _start(last.date() - timedelta(SHOWN[bucket] - 1) if start is None else start, zone)
    if first.timestamp() > last.timestamp():
        raise invalid("from", "from must not be after to")
    most = HOUR_DAYS if bucket == "hour" else DAYS
    # By the clocks, on which every day has 24 hours.
    if last.replace(tzinfo=None) - first.replace(tzinfo=None) > timedelta(most):
        raise invalid("bucket" if bucket == "hour" else "from", f"from and to are more than {most} days apart")
    return hour_spans(first, last, zone) if bucket == "hour" else day_spans(first.date(), last.date(), zone)


def _read(parameters: Parameters, name: str, zone: ZoneInfo) -> date | datetime | None:
    """A date, or a time on the zone's clocks."""
    text = parameters.text(name)
    if text is None:
        return None
    found = _parse(text, date.fromisoformat) or _parse(text, datetime.fromisoformat)
    if found is None or found.year not in YEARS:
        raise invalid(name, f"{name} must be a date or a time of ISO 8601, such as 2026-11-30 or 2026-11-30T14:00")
    if not isinstance(found, datetime):
        return found
    return local(found if found.tzinfo else found.replace(tzinfo=zone), zone)


def _parse(text: str, parse: Callable[[str], date]) -> date | None:
    try:
        return parse(text)
    except ValueError:
        return None


def _start(found: date | datetime, zone: ZoneInfo) -> datetime:
    return found if isinstance(found, datetime) else first_moment(found, zone)


def _end(found: date | datetime, zone: ZoneInfo) -> datetime:
    """The last moment of it."""
    if isinstance(found, datetime):
        return found
    return local(first_moment(found + timedelta(1), zone) - timedelta(microseconds=1), zone)
