"""Figures as the live view shows them: rounded, and None where there is nothing to tell."""

from __future__ import annotations

import datetime

__all__ = ["counted", "date", "ms", "per_second", "ratio", "rounded", "span_ms"]


def ms(seconds: float) -> float:
    """Milliseconds, never below zero: clocks are read one after the other."""
    return round(1e3 * max(seconds, 0.0), 3)


def span_ms(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else ms(end - start)


def per_second(count: int, start: float | None, end: float | None) -> float | None:
    if start is None or end is None or end <= start or count <= 0:
        return None
    return round(count / (end - start), 3)


def ratio(amount: int | None, per: int | None) -> float | None:
    return round(amount / per, 3) if amount and per else None


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def date(epoch_ms: float, zone: datetime.tzinfo | None) -> str:
    """Milliseconds since 1970 as an ISO date."""
    return datetime.datetime.fromtimestamp(epoch_ms / 1e3, zone).isoformat(timespec="milliseconds")


def counted(count: int, noun: str) -> str:
    """`1 token`, `1,200 tokens`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
