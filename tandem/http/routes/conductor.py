"""GET /v1/conductor/…: the reads of the journal (OBS-030, API-232, API-236, API-250)."""

from __future__ import annotations

from quart import Blueprint

__all__ = ["blueprint"]

blueprint = Blueprint("conductor", __name__)
