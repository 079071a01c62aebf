"""GET /v1/dashboard/logs: the newest log lines, by the page or as they come (OBS-047, API-246)."""

from __future__ import annotations

from quart import Blueprint

__all__ = ["blueprint"]

blueprint = Blueprint("logs", __name__)
