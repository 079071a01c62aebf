"""From the settings to the parts of a real service: the checkpoint found, the engine loaded on its own thread."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tandem.actors.host import InlineHost, open_host
from tandem.actors.kit import SystemWallClock, Threads
from tandem.actors.store import Store
from tandem.config import Settings
from tandem.engine.errors import CheckpointError
from tandem.engine.fake import FakeEngine
from tandem.identity import identify
from tandem.log import LogBook
from tandem.service import Parts, ServiceEngine
from tandem.state import State
from tandem.store.aio import open_aio

if TYPE_CHECKING:
    from tandem.engine.caches.settings import CacheSettings
    from tandem.engine.drafting.lookups import Lookups

__all__ = ["Progress", "find_model", "open_parts"]

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""What is under way, how much of it is done, and all of it."""

THREADS = {"prompt": 1, "body": 1, "grammar": 1, "image": 1, "docs": 1, "usage": 1, "miss": 1, "keep": 1}
"""Worker threads a purpose may use at once; the engine and the event loop need the cores."""


def find_model(settings: Settings, state: State, progress: Progress) -> Path | None:
    """The checkpoint to serve, the embedded one fetched where it is asked for and missing; None for `--fake`.

    Raises `CheckpointError`.
    """
    if settings.fake:
        return None
    from tandem.engine.checkpoints.embedded import ensure
    from tandem.engine.checkpoints.load import resolve_model

    if settings.model is None:
        return ensure(state.path, partial(progress, "fetching the embedded model"))
    return resolve_model(settings.model, state.path)


@asynccontextmanager
async def open_parts(
    settings: Settings, state: State, model: Path | None, progress: Progress, logs: LogBook
) -> AsyncIterator[Parts]:
    """The parts of a real service, the model loaded; `logs` are the lines its log writes. Raises `CheckpointError`.

    The engine thread loads what it will run: on a thread of its own the load would leave a second team of OpenMP
    threads behind, and with more of them than cores every parallel region is slower.
    """
    wall = SystemWallClock()
    path = replace(settings, state_dir=state.path).ledger_path  # STATE may be a temporary one
    ledger = None if path is None else partial(open_aio, path)
    parts = partial(
        Parts,
        store=Store(ledger, wall, settings.usage_retention_days),
        blocking=Threads.with_limits(THREADS),
        wall=wall,
        identity=identify(settings),
        logs=logs,
    )
    if model is None:
        fake = FakeEngine(max_len=settings.max_len, grid=settings.prefix_chunk)
        yield parts(engine=fake, host=InlineHost(fake))
        return
    failure: CheckpointError | None = None
    async with open_host() as host:
        try:
            engine = await host.run_job(partial(_load, settings, state, model, progress))
        except CheckpointError as error:
            failure = error  # raised outside the host's nursery, which would wrap it into a group
        else:
            yield parts(engine=engine, host=host)
    if failure is not None:
        raise failure


def _load(settings: Settings, state: State, model: Path, progress: Progress) -> ServiceEngine:
    # torch takes a second to import, which --fake and the other commands need not wait for.
    from tandem.engine.checkpoints.overlay import Overlays
    from tandem.engine.load import load_engine
    from tandem.engine.memory import GIB, default_threads
    from tandem.engine.room import Budgets

    engine = load_engine(
        model,
        max_len=settings.max_len,
        grid=settings.prefix_chunk,
        name=settings.model_name,
        threads=settings.threads or default_threads(),
        cpu_weights=settings.cpu_weights,
        budgets=Budgets(
            anchors=None if settings.resident_gb is None else int(settings.resident_gb * GIB),
            encode=int(settings.image_act_gb * GIB),
            images=settings.image_cache_mb * 2**20,
            margin=None if settings.load_margin_gib is None else int(settings.load_margin_gib * GIB),
        ),
        end_anchor=settings.end_anchor,
        overlays=Overlays(settings.nvfp4, settings.fp8_head),
        vision=settings.vision,
        drafter=settings.drafter,
        draft_hot=settings.draft_hot,
        lookups=_lookups(settings),
        caches=_caches(settings, state, model),
        device=settings.device,
        progress=partial(progress, "loading the model"),
    )
    unused = engine.card.weights.get("unused")
    if isinstance(unused, list) and unused:
        log.warning("[model] the checkpoint has tensors that nothing asked for: %s", ", ".join(unused))
    if off := engine.card.weights.get("drafter_off"):
        log.warning("[model] the drafter is off: %s", off)
    lacks = engine.card.weights.get("template_lacks")
    if isinstance(lacks, list) and lacks:
        log.info("[model] the chat template has no place for %s: served without", " and ".join(lacks))
    return engine


def _lookups(settings: Settings) -> Lookups:
    from tandem.engine.drafting.lookups import MIB, Lookups

    return Lookups(
        deep=settings.deep,
        deep_after=settings.deep_after,
        corpus=settings.lookup_corpus,
        store=None if settings.suffix_store is None else settings.state_dir / settings.suffix_store,
        store_bytes=settings.suffix_store_mb * MIB,
        store_scope=settings.suffix_store_scope,
        store_readonly=settings.suffix_store_readonly,
    )


def _caches(settings: Settings, state: State, model: Path) -> CacheSettings:
    """Files lie in folders of this model alone: a start sweeps what is of another (ENG-176)."""
    from tandem.engine.caches.disk_index import DiskSettings
    from tandem.engine.caches.fingerprint import profile_folder
    from tandem.engine.caches.settings import CacheSettings

    disk = {
        "mode": settings.disk_cache,
        "budget_gb": settings.disk_cache_gb,
        "ttl_days": settings.disk_cache_ttl_days,
        "admit_after": settings.disk_cache_admit_after,
        "min_free_gb": settings.disk_cache_min_free_gb,
    }
    return CacheSettings(
        guest_max=settings.resident_guest_max,
        stash=_gib(settings.resident_stash_gb),
        park=_gib(settings.park_gb),
        store=_gib(settings.cache_budget_gb),
        prefix_cache=not settings.no_prefix_cache,
        session_cache=not settings.no_session_cache,
        disk=DiskSettings.of(disk),
        disk_folder=None if settings.disk_cache == "off" else profile_folder(state.path / "caches/disk", model.name),
        spill_folder=profile_folder(state.path / "caches/spill", model.name) if settings.spill else None,
        mem_ceiling=_gib(settings.mem_ceiling_gib),
        mem_peak=_gib(settings.mem_peak_gib),
    )


def _gib(size: float | None) -> int | None:
    return None if size is None else int(size * 2**30)
