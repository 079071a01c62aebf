"""GET /v1/dashboard/system: what runs and how it is set (OBS-083, OBS-053)."""

from __future__ import annotations

from quart import Blueprint

__all__ = ["blueprint"]

blueprint = Blueprint("system", __name__)
