"""A histogram that takes a value many times at once.

A request's blocks are too many to be observed one by one when it ends, and their times are not kept singly. Their mean,
taken once a block, leaves sum and count of the series exact; only the spread within a request is lost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

__all__ = ["WeightedHistogram"]


class WeightedHistogram(Collector):
    """Registers itself; `bounds` are those of its buckets, rising, without the infinite one."""

    def __init__(self, name: str, help: str, *, bounds: tuple[float, ...], registry: CollectorRegistry) -> None:
        self._name = name
        self._help = help
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        registry.register(self)

    def observe(self, value: float, times: int) -> None:
        """`value` has occurred so many times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def collect(self) -> Iterable[HistogramMetricFamily]:
        yield HistogramMetricFamily(self._name, self._help, buckets=self._buckets(), sum_value=self._sum)

    def _buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as the exposition format has them."""
        buckets, total = [], 0.0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            buckets.append((floatToGoString(bound), total))  # type: ignore[no-untyped-call]
        return buckets
