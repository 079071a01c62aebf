"""GET /health: answered from the watchdog's snapshots, so it never waits for a generation (API-053, SCH-103)."""

from __future__ import annotations

from typing import Any

import msgspec
from quart import Blueprint, Response

from tandem.actors.watchdog import Sight
from tandem.http import facts
from tandem.http.context import SERVED_NAME, Context, context
from tandem.http.gate import asked

__all__ = ["blueprint"]

blueprint = Blueprint("health", __name__)


@blueprint.get("/health")
async def health() -> Response:
    here = context()
    sight = await facts.look(here)
    status = facts.status_of(here, sight)
    body = {"status": status, "model": SERVED_NAME}
    if here.access.may_read_health(asked()):
        body |= await _details(here, sight)
    return Response(msgspec.json.encode(body), status=200 if status == "ok" else 503, content_type="application/json")


async def _details(here: Context, sight: Sight | None) -> dict[str, Any]:
    """What only the health class is told (API-017): the blocks of OBS-103 that can be read at the moment."""
    ledger = await facts.ledger_facts(here)
    blocks = {
        "inflight": None if sight is None else _inflight(sight),
        "limits": _limits(here),
        "cache": facts.attempt(lambda: facts.cache_block(here)),
        "memory": facts.memory_block(here),
        "reasoning": facts.reasoning_block(here),
        "sampling": facts.sampling_block(here),
        **facts.shared_blocks(here, sight),
        "conductor": {"mode": "raw" if here.documents is None else "on"},
        "live": facts.readers_block(here),
        "watch": None if sight is None else facts.watch_block(here, sight),
        "ledger": None if ledger is None else facts.ledger_block(ledger),
    }
    return facts.identity_block(here) | {name: block for name, block in blocks.items() if block is not None}


def _inflight(sight: Sight) -> dict[str, Any]:
    return {"running": sight.running, "waiting": sight.waiting, **facts.counts_block(sight)}


def _limits(here: Context) -> dict[str, Any]:
    settings = here.settings
    return {
        "max_queue": settings.max_queue,
        "queue_timeout_s": settings.queue_timeout,
        "request_timeout_s": settings.request_timeout,
        "context_length": here.card.max_len,
    }
