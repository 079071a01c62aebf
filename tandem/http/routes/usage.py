"""GET /v1/dashboard/summary, usage and requests: what the ledger says (OBS-087, OBS-088, OBS-113, API-243)."""

from __future__ import annotations

from quart import Blueprint

__all__ = ["blueprint"]

blueprint = Blueprint("usage", __name__)
