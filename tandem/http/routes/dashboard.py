"""GET /dashboard/…: the page's own files, public and without data (API-240, OBS-073)."""

from __future__ import annotations

from quart import Blueprint

__all__ = ["blueprint"]

blueprint = Blueprint("dashboard", __name__)
