"""What /health, the System screen and a scrape are told of the service: read at once, without waiting for a generation.

A block that cannot be read is None and is left out by whoever shows it. The engine's counters are read while its thread
may be at work, so a single number can be a step behind the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import trio

from tandem.actors.kit import ActorGone
from tandem.actors.store import Facts, LedgerFacts
from tandem.actors.watchdog import Look, Sight
from tandem.engine import memory
from tandem.http.context import Context
from tandem.http.openai.thinking import OFF
from tandem.process import memory_of

__all__ = [
    "SIGHT_S",
    "attempt",
    "cache_block",
    "counts_block",
    "identity_block",
    "ledger_block",
    "ledger_facts",
    "look",
    "memory_block",
    "readers_block",
    "reasoning_block",
    "sampling_block",
    "status_of",
    "watch_block",
]

T = TypeVar("T")

log = logging.getLogger(__name__)

SIGHT_S = 1.0
"""How long the watchdog may take to tell what it sees. It answers at once; where a machine is so busy that the loop has
stood still for a moment, that moment must not make the server look failed."""
LEDGER_S = 0.05
"""The same for the store. Of a busy one the block is left out."""


async def look(here: Context, timeout_s: float = SIGHT_S) -> Sight | None:
    """What the watchdog sees; None when it or something essential has gone."""
    sight: Sight | None = None
    if not here.broken:
        with trio.move_on_after(timeout_s), suppress(ActorGone):
            sight = await here.watchdog.ask(Look)
    return sight


async def ledger_facts(here: Context, timeout_s: float = LEDGER_S) -> Facts | None:
    facts: Facts | None = None
    with trio.move_on_after(timeout_s), suppress(ActorGone):
        facts = await here.store.ask(LedgerFacts)
    return facts


def attempt(read: Callable[[], T]) -> T | None:
    """What `read` gives, or None: one source that fails must not take the others with it (OBS-033)."""
    try:
        return read()
    except Exception:
        log.debug("[health] a source failed", exc_info=True)
        return None


def status_of(here: Context, sight: Sight | None) -> str:
    """`ok`, `draining` or `failed` (API-053)."""
    if sight is None:
        return "failed"
    return "draining" if sight.draining or here.leaving.is_set() else "ok"


def identity_block(here: Context) -> dict[str, Any]:
    return {
        "base_model": here.card.name,
        "version": here.identity.version,
        "uptime_s": round(trio.current_time() - here.started_at, 1),
        "weights": dict(here.card.weights),
    }


def counts_block(sight: Sight) -> dict[str, Any]:
    """Ended requests since the start."""
    return {
        "served": sight.served,
        "refused": dict(sight.refused),
        "errors": sight.errors,
        "timeouts": sight.timeouts,
        "abandoned": sight.abandoned,
    }


def watch_block(here: Context, sight: Sight) -> dict[str, Any]:
    """What the watchdog has found."""
    return {
        "stuck": list(sight.stuck),
        "off": list(here.switched_off),
        "loop_lag_ms": round(sight.loop_lag_ms, 1),
    }


def readers_block(here: Context) -> dict[str, int]:
    return {"readers": here.readers.count("live"), "log_readers": here.readers.count("log")}


def cache_block(here: Context) -> dict[str, Any] | None:
    state, cost = attempt(here.engine_state), attempt(here.engine_cost)
    if state is None or cost is None:
        return None
    return {"base_model": here.card.name, "caches": _caches(state), "snapshot_cost": dict(cost)}


def _caches(state: Mapping[str, int]) -> list[dict[str, Any]]:
    """The caches that are there; of today's the resident prefix alone."""
    if "resident_rows" not in state:
        return []
    rows = state["resident_rows"]
    return [
        {
            "name": "resident",
            "entries": int(rows > 0),
            "bytes": state["resident_bytes"],
            "budget_bytes": state["kv_bytes"],
            "hits": state["resident_hits"],
            "misses": state["resident_misses"],
            "rows": rows,
            "anchors": state["resident_anchors"],
        }
    ]


def memory_block(here: Context) -> dict[str, int]:
    """Bytes: what the engine has allocated, the process in RAM, and the machine; as far as each can be told."""
    process = attempt(memory_of) or {}
    named = {
        "allocated_bytes": attempt(lambda: _allocated(here)),
        "resident_bytes": process.get("resident"),
        "peak_bytes": process.get("peak"),
        "available_bytes": attempt(memory.available),
        "total_bytes": attempt(memory.total),
    }
    return {name: value for name, value in named.items() if value is not None}


def _allocated(here: Context) -> int | None:
    """Weights and window; None of an engine that does not tell both."""
    weights, window = here.card.weights.get("loaded_bytes"), here.engine_state().get("kv_bytes")
    if not isinstance(weights, Mapping) or window is None:
        return None
    return sum(weights.values()) + window


def ledger_block(facts: Facts) -> dict[str, Any]:
    return {
        "enabled": facts.enabled,
        "degraded": facts.degraded,
        "rows": facts.rows,
        "bytes": facts.bytes,
        "queue": facts.queue,
        "dropped": facts.dropped,
    }


def reasoning_block(here: Context) -> dict[str, str]:
    return {"reasoning_format": here.settings.reasoning_format, "reasoning_effort": _effort(here)}


def sampling_block(here: Context) -> dict[str, Any]:
    """How a request is answered that says nothing about it (API-054)."""
    return {"thinking_default": "off" if _effort(here) == "off" else "on", "card": dict(here.card.sampling)}


def _effort(here: Context) -> str:
    effort = here.settings.reasoning_effort
    return "off" if effort in OFF else effort
