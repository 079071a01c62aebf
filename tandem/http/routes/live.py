"""GET /v1/dashboard/live: the live view as JSON, as server-sent events and over a websocket (OBS-056 to OBS-062)."""

from __future__ import annotations

from quart import Blueprint

__all__ = ["blueprint"]

blueprint = Blueprint("live", __name__)
