"""GET /metrics, /metrics/up and /v1/dashboard/metrics (OBS-031 to OBS-033, API-057, API-061)."""

from __future__ import annotations

from typing import Any

import trio
from quart import Blueprint, Response, request

from tandem.actors.watchdog import TurnsSeen
from tandem.http import facts
from tandem.http.context import Context, context
from tandem.http.query import Parameters
from tandem.metrics import CONTENT_TYPE, CacheReading, Readings, TurnsReading, up_page
from tandem.process import memory_of

__all__ = ["blueprint"]

blueprint = Blueprint("metrics", __name__)

ASKED_S = 0.05
"""How long watchdog and store may take, each. What they do not tell in time is missing from this scrape."""
KINDS = {"sessions": "session", "parked": "session", "images": "image", "suffix": "draft", "response": "response"}
"""What a hit of a cache spares, where that is not reading the beginning of a prompt."""


@blueprint.get("/metrics")
async def metrics() -> Response:
    return await _page()


@blueprint.get("/v1/dashboard/metrics")
async def dashboard_metrics() -> Response:
    """The same page for whoever may read the dashboard."""
    Parameters(request.args).end()
    return await _page()


@blueprint.get("/metrics/up")
async def up() -> Response:
    """Tells a dead server from a wrong token, so it asks for none."""
    here = context()
    status = facts.status_of(here, await facts.look(here))
    return Response(up_page(status == "ok"), content_type=CONTENT_TYPE)


async def _page() -> Response:
    here = context()
    return Response(here.metrics.page(await _read(here)), content_type=CONTENT_TYPE)


async def _read(here: Context) -> Readings:
    sight = await facts.look(here, ASKED_S)
    ledger = await facts.ledger_facts(here, ASKED_S)
    memory = facts.attempt(memory_of) or {}
    view = facts.attempt(here.engine_memory)
    return Readings(
        requests_running=None if sight is None else sight.running,
        requests_waiting=None if sight is None else sight.waiting,
        resident_memory_bytes=memory.get("resident"),
        uptime_s=trio.current_time() - here.started_at,
        started_at=here.created.timestamp(),
        ledger_rows=ledger.written if ledger is not None and ledger.enabled else None,
        ledger_dropped=None if ledger is None else ledger.dropped,
        live_subscribers=here.readers.count("live"),
        log_subscribers=here.readers.count("log"),
        lane_waiting=None if sight is None or here.settings.side_lane == "off" else sight.lane,
        sheds=None if view is None or view.ceiling is None else view.sheds,
        turns=None if sight is None or sight.turns is None else _turns(sight.turns),
        admission_waits=None if sight is None or sight.memory is None else sight.memory.waits,
        own_work_s=None if sight is None or sight.windows is None else sight.windows.seconds,
        caches=_caches(facts.attempt(lambda: facts.cache_block(here))),
        engine=_engine(here),
        build=_build(here),
    )


def _turns(seen: TurnsSeen) -> TurnsReading:
    return TurnsReading(hand_overs=seen.hand_overs, rounds=seen.rounds, seconds=seen.seconds)


def _caches(block: dict[str, Any] | None) -> list[CacheReading]:
    return [
        CacheReading(
            name=cache["name"],
            entries=cache["entries"],
            bytes=cache["bytes"],
            hits={KINDS.get(cache["name"], "prefix"): cache["hits"]},
            misses=cache["misses"],
            evictions=cache["evictions"],
            collisions=cache.get("collisions"),
            budget=cache["budget_bytes"],
        )
        for cache in (block or {}).get("caches", ())
    ]


def _engine(here: Context) -> dict[str, str]:
    weights = here.card.weights
    return {
        "version": here.identity.version,
        "base_model": here.card.name,
        "architecture": here.card.architecture,
        "weights": str(weights.get("dtype", "none")),
        "drafter": str(weights.get("drafter", "none")),
    }


def _build(here: Context) -> dict[str, str]:
    identity = here.identity
    return {
        "version": identity.version,
        "git_sha": identity.git_sha,
        "code_sha256": identity.code_sha256,
        "flags_sha256": identity.flags_sha256,
    }
