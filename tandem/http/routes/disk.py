"""The disk tier as the Memory screen shows it, and its clear (API-237, MEM-014, MEM-015)."""

from __future__ import annotations

import msgspec
from quart import Blueprint, Response, request

from tandem.actors.keeper import LookAtDisk
from tandem.engine.caches.disk_index import DiskSettings
from tandem.http.actors import answer_of, current_documents
from tandem.http.context import context
from tandem.http.query import Parameters
from tandem.http.responses import data_response, json_response
from tandem.http.routes.cache import clear_engine

__all__ = ["blueprint"]

blueprint = Blueprint("disk", __name__)

DISK = "disk"


@blueprint.get("/v1/conductor/memory/disk")
async def disk() -> Response:
    here = context()
    documents = await current_documents()
    Parameters(request.args).end()
    view = await answer_of(here.keeper, LookAtDisk)
    wanted = documents.settings.memory.disk_cache.over(here.settings.disk_tier)
    settings = DiskSettings.of(wanted)
    asked = 0 if view is None else view.hits + view.misses
    return data_response(
        {
            "running": view is not None,
            "settings": {"version": documents.versions["settings"], **wanted},
            "bytes": 0 if view is None else view.bytes,
            "budget_bytes": settings.budget,
            "free_bytes": None if view is None else view.free,
            "floor_bytes": settings.min_free,
            "hits": 0 if view is None else view.hits,
            "misses": 0 if view is None else view.misses,
            "hit_rate": None if view is None or not asked else view.hits / asked,
            "entries": []
            if view is None
            else [{"rows": row, "bytes": size, "uses": uses} for row, size, uses in view.top],
            "events": [] if view is None else list(view.events),
        }
    )


@blueprint.post("/v1/conductor/memory/disk/clear")
async def clear() -> Response:
    """Waits for the generation that runs, as POST /v1/cache/clear does."""
    here = context()
    await current_documents()
    freed = await clear_engine(here, (DISK,)) if DISK in here.engine_caches() else {DISK: 0}
    return json_response(msgspec.json.encode({"freed_bytes": freed}), {"Cache-Control": "no-store"})
