"""GET /health: answered from the watchdog's snapshots, so it never waits for a generation (API-053, SCH-103)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import trio
from quart import Blueprint, Response

import tandem
from tandem.actors.kit import ActorGone
from tandem.actors.store import Facts, LedgerFacts
from tandem.actors.watchdog import Look, Sight
from tandem.http.context import SERVED_NAME, Context, context
from tandem.http.gate import asked

__all__ = ["blueprint"]

blueprint = Blueprint("health", __name__)

SIGHT_S = 1.0
"""How long the watchdog may take to tell what it sees. It answers at once; where a machine is so busy that the loop has
stood still for a moment, that moment must not make the server look failed."""
LEDGER_S = 0.05
"""The same for the store. Of a busy one the block is left out."""


@blueprint.get("/health")
async def health() -> Response:
    here = context()
    sight = await _look(here)
    status = "failed" if sight is None else "draining" if sight.draining else "ok"
    body = {"status": status, "model": SERVED_NAME}
    if here.access.may_read_health(asked()):
        body |= await _details(here, sight)
    return Response(msgspec.json.encode(body), status=200 if status == "ok" else 503, content_type="application/json")


async def _details(here: Context, sight: Sight | None) -> dict[str, Any]:
    """What only the health class is told (API-017)."""
    body = _identity(here)
    if sight is not None:
        body |= _running(here, sight)
    ledger = await _ledger(here)
    if ledger is not None:
        body["ledger"] = ledger
    return body


async def _look(here: Context) -> Sight | None:
    """None when the watchdog or something essential has gone."""
    sight: Sight | None = None
    if not here.broken:
        with trio.move_on_after(SIGHT_S), suppress(ActorGone):
            sight = await here.watchdog.ask(Look)
    return sight


async def _ledger(here: Context) -> dict[str, Any] | None:
    facts: Facts | None = None
    with trio.move_on_after(LEDGER_S), suppress(ActorGone):
        facts = await here.store.ask(LedgerFacts)
    return None if facts is None else msgspec.to_builtins(facts)


def _identity(here: Context) -> dict[str, Any]:
    return {
        "base_model": here.card.name,
        "version": tandem.__version__,
        "uptime_s": round(trio.current_time() - here.started_at, 1),
        "weights": dict(here.card.weights),
    }


def _running(here: Context, sight: Sight) -> dict[str, Any]:
    settings = here.settings
    return {
        "inflight": {
            "running": sight.running,
            "waiting": sight.waiting,
            "served": sight.served,
            "refused": dict(sight.refused),
            "errors": sight.errors,
            "timeouts": sight.timeouts,
            "abandoned": sight.abandoned,
        },
        "limits": {
            "max_queue": settings.max_queue,
            "queue_timeout_s": settings.queue_timeout,
            "request_timeout_s": settings.request_timeout,
            "context_length": here.card.max_len,
        },
        "watch": {
            "stuck": list(sight.stuck),
            "off": list(here.switched_off),
            "loop_lag_ms": round(sight.loop_lag_ms, 1),
        },
    }
