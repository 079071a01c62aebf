"""Plain statistics of repeated measurements, and the order in which they are taken."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Summary", "interleaved", "percentile", "ratio", "summary"]

S = TypeVar("S")
C = TypeVar("C")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Summary:
    """The median of some values, and the lowest and highest of them."""

    median: float
    low: float
    high: float


def summary(values: Sequence[float]) -> Summary:
    """At least one value."""
    return Summary(statistics.median(values), min(values), max(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(math.ceil(share * len(ranked)), 1) - 1]


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of ours / theirs, taken round by round: what slows a whole round of both cancels out."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def interleaved(
    subjects: Mapping[str, S], cases: Sequence[C], measure: Callable[[S, C], T], done: Callable[[], None]
) -> dict[str, list[T]]:
    """Measure every subject on the first case, then every subject on the second, and so on: by name, one value a case.

    Subjects that take turns meet the same drift of the machine. `done` is called after every single measurement.
    """
    measured: dict[str, list[T]] = {name: [] for name in subjects}
    for case in cases:
        for name, subject in subjects.items():
            measured[name].append(measure(subject, case))
            done()
    return measured
