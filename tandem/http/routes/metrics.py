"""GET /metrics, /metrics/up and /v1/dashboard/metrics (OBS-031 to OBS-033, API-057, API-061)."""

from __future__ import annotations

from quart import Blueprint

__all__ = ["blueprint"]

blueprint = Blueprint("metrics", __name__)
