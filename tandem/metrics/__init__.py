"""Prometheus metrics: the counted series, what a scrape reads beside them, and the page of both (OBS-031)."""

from tandem.metrics.counted import Metrics
from tandem.metrics.labels import route_of
from tandem.metrics.page import CONTENT_TYPE, CacheReading, Readings, TurnsReading, up_page

__all__ = ["CONTENT_TYPE", "CacheReading", "Metrics", "Readings", "TurnsReading", "route_of", "up_page"]
