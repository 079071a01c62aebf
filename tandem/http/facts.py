"""What /health, the System screen and a scrape are told of the service: read at once, without waiting for a generation.

A block that cannot be read is None and is left out by whoever shows it. The engine's counters are read while its thread
may be at work, so a single number can be a step behind the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

import trio

from tandem.actors.kit import ActorGone
from tandem.actors.store import Facts, LedgerFacts
from tandem.actors.watchdog import Look, Sight
from tandem.engine import memory
from tandem.engine.caches.caching import CacheStats, MemoryView
from tandem.http.context import Context
from tandem.http.openai.thinking import OFF
from tandem.process import memory_of

__all__ = [
    "RESPONSE",
    "SIGHT_S",
    "attempt",
    "cache_block",
    "cache_list",
    "cache_stats",
    "counts_block",
    "identity_block",
    "ledger_block",
    "ledger_facts",
    "look",
    "memory_block",
    "readers_block",
    "reasoning_block",
    "sampling_block",
    "shared_blocks",
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
GATE_EVENTS = 20
"""The newest events of the memory gate that are shown."""
RESPONSE = "response"
"""The response cache's name: the one cache that is not the engine's."""


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
        "weights": {**here.card.weights, "tokenizer_sha256": here.card.tokenizer_sha256 or None},
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


def shared_blocks(here: Context, sight: Sight | None) -> dict[str, Any]:
    """How requests share the engine (SCH-103): `lane` where there is one, `parallel` where there are side slots."""
    if sight is None:
        return {}
    lane = {"mode": here.settings.side_lane, "waiting": sight.lane, "served": dict(sight.lane_served)}
    named = {"lane": None if here.settings.side_lane == "off" else lane, "parallel": _parallel(sight)}
    return {name: block for name, block in named.items() if block is not None}


def _parallel(sight: Sight) -> dict[str, Any] | None:
    turns, memory = sight.turns, sight.memory
    if turns is None:
        return None
    block = {
        "slots": [
            {"slot": slot, "phase": sight.slots.get(slot, "idle"), "gpu_s": round(turns.seconds.get(slot, 0.0), 3)}
            for slot in sorted({*sight.slots, *turns.seconds})
        ],
        "turn": {"holder": turns.holder, "hand_overs": turns.hand_overs},
        "rounds": _by_size(turns.rounds),
    }
    if memory is not None:
        admission = {"reserved_bytes": memory.reserved, "floor_bytes": memory.floor, "waits": memory.waits}
        known = {} if memory.available is None else {"available_bytes": memory.available}
        block["admission"] = admission | known
    if turns.meeting:
        block["meeting"] = _by_size({size: dict(times) for size, times in turns.meeting.items()})
    return block


def _by_size(values: Mapping[int, T]) -> dict[str, T]:
    return {str(size): value for size, value in sorted(values.items())}


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
    caches, cost = attempt(lambda: cache_list(here)), attempt(here.engine_cost)
    if caches is None or cost is None:
        return None
    notes = list(attempt(lambda: here.engine_memory().notes) or ())
    block = {"base_model": here.card.name, "caches": caches, "snapshot_cost": dict(cost)}
    return block | ({"notes": notes} if notes else {})


def cache_list(here: Context) -> list[dict[str, Any]]:
    """The caches that are on. The resident prefix has rows and anchors, and the window for its budget."""
    state = here.engine_state()
    found = [_cache(name, stats) for name, stats in cache_stats(here).items()]
    for cache in found:
        if cache["name"] == "resident":
            rows = state["resident_rows"]
            cache |= {"entries": int(rows > 0), "rows": rows, "anchors": state["resident_anchors"]}
            cache["budget_bytes"] = cache["budget_bytes"] or state["kv_bytes"]
    return found


def cache_stats(here: Context) -> dict[str, CacheStats]:
    """The engine's caches that are on, by name, and the service's own."""
    if here.responses is None:
        return dict(here.engine_caches())
    state = {name.removeprefix("response_cache_"): count for name, count in here.responses.state().items()}
    stats = CacheStats(
        hits=state["hits"],
        misses=state["misses"],
        evictions=state["evictions"],
        saved_tokens=state["saved_tokens"],
        entries=state["entries"],
        bytes=state["bytes"],
        budget=here.settings.response_cache_mb << 20,
    )
    return {**here.engine_caches(), RESPONSE: stats}


def _cache(name: str, stats: CacheStats) -> dict[str, Any]:
    return {
        "name": name,
        "entries": stats.entries,
        "bytes": stats.bytes,
        "budget_bytes": stats.budget,
        "hits": stats.hits,
        "misses": stats.misses,
        "evictions": stats.evictions,
        **({} if stats.collisions is None else {"collisions": stats.collisions}),
    }


def memory_block(here: Context) -> dict[str, Any]:
    """Bytes: what the engine has allocated, the process in RAM, and the machine; as far as each can be told."""
    process = attempt(memory_of) or {}
    named = {
        "allocated_bytes": attempt(lambda: _allocated(here)),
        "resident_bytes": process.get("resident"),
        "peak_bytes": process.get("peak"),
        "available_bytes": attempt(memory.available),
        "total_bytes": attempt(memory.total),
        "gate": attempt(lambda: _gate(here.engine_memory())),
    }
    return {name: value for name, value in named.items() if value is not None}


def _allocated(here: Context) -> int | None:
    """Weights and window; None of an engine that does not tell both."""
    weights, window = here.card.weights.get("loaded_bytes"), here.engine_state().get("kv_bytes")
    if not isinstance(weights, Mapping) or window is None:
        return None
    return sum(weights.values()) + window


def _gate(view: MemoryView) -> dict[str, Any] | None:
    """What is looked at before a prompt is read (ENG-125); None where nothing is."""
    if view.ceiling is None:
        return None
    return {
        "reserved_bytes": view.reserved,
        "ceiling_bytes": view.ceiling,
        "peak_bytes": view.peak,
        "events": [asdict(event) for event in view.events[-GATE_EVENTS:]],
    }


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
    """How a request is answered that says nothing about it (API-054); with a conductor, what its plans sample."""
    block = {"thinking_default": "off" if _effort(here) == "off" else "on", "card": dict(here.card.sampling)}
    return block if here.kit is None else block | here.sampling.blocks(here.kit.sampling)


def _effort(here: Context) -> str:
    effort = here.settings.reasoning_effort
    return "off" if effort in OFF else effort
