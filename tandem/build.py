"""From the settings to the parts of a real service: the checkpoint found, the engine loaded on its own thread."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
    from tandem.engine.drafting.combined import Proposing
    from tandem.engine.drafting.lookups import Lookups

__all__ = ["Progress", "find_model", "open_parts"]

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""What is under way, how much of it is done, and all of it."""

THREADS = {
    "prompt": 1,
    "body": 1,
    "grammar": 1,
    "image": 1,
    "docs": 1,
    "usage": 1,
    "miss": 1,
    "keep": 1,
    "documents": 1,
}
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
    here = replace(settings, state_dir=state.path)  # STATE may be a temporary one
    ledger = None if here.ledger_path is None else partial(open_aio, here.ledger_path)
    parts = partial(
        Parts,
        store=Store(ledger, wall, settings.usage_retention_days),
        blocking=Threads.with_limits(THREADS),
        wall=wall,
        identity=identify(settings),
        conductor_dir=here.conductor_dir,
        logs=logs,
    )
    if model is None:
        fake = FakeEngine(
            max_len=settings.max_len,
            grid=settings.prefix_chunk,
            slots=settings.parallel,
            side_max_len=settings.side_max_len,
        )
        yield parts(engine=fake, host=InlineHost(fake))
        return
    failure: CheckpointError | None = None
    async with open_host() as host:
        try:
            engine = await host.run_job(partial(_load, settings, state, model, progress))
        except CheckpointError as error:
            failure = error  # raised outside the host's nursery, which would wrap it into a group
        else:
            room, floor = await host.run_job(_room)
            yield parts(engine=engine, host=host, available=room, floor=floor)
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
        proposing=_proposing(settings),
        caches=_caches(settings, state, model),
        device=settings.device,
        parallel=settings.parallel,
        side_max_len=settings.side_max_len,
        floor=_gib(settings.parallel_floor_gb),
        progress=partial(progress, "loading the model"),
    )
    unused = engine.card.weights.get("unused")
    if isinstance(unused, list) and unused:
        log.warning("[model] the checkpoint has tensors that nothing asked for: %s", ", ".join(unused))
    if off := engine.card.weights.get("drafter_off"):
        log.warning("[model] the drafter is off: %s", off)
    if refused := engine.card.weights.get("slots_refused"):
        log.warning("[model] there is no room for all side slots: %s", refused)
    lacks = engine.card.weights.get("template_lacks")
    if isinstance(lacks, list) and lacks:
        log.info("[model] the chat template has no place for %s: served without", " and ".join(lacks))
    return engine


def _room() -> tuple[Callable[[], int | None], int]:
    """What tells the memory that could be taken, where the engine is, and how much of it stays free (ENG-189)."""
    from tandem.engine.memory import available, cuda_board, default_floor, used_board

    board = used_board()
    return (lambda: available(board=None if board is None else cuda_board())), default_floor(board=board)


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


def _proposing(settings: Settings) -> Proposing:
    from tandem.engine.drafting.combined import Proposing

    rows: dict[str | None, Literal[8, 16] | None] = {None: None, "8": 8, "16": 16}
    return Proposing(settings.sampled_tree, rows[settings.len_fixed], settings.block_drafter)


def _caches(settings: Settings, state: State, model: Path) -> CacheSettings:
    """Files lie in folders of this model alone: a start sweeps what is of another (ENG-176)."""
    from tandem.engine.caches.disk_index import DiskSettings
    from tandem.engine.caches.fingerprint import profile_folder
    from tandem.engine.caches.settings import CacheSettings

    # The conductor's settings document may switch the tier on while the server runs.
    has_tier = settings.disk_cache != "off" or settings.conductor_config is not None
    return CacheSettings(
        guest_max=settings.resident_guest_max,
        stash=_gib(settings.resident_stash_gb),
        park=_gib(settings.park_gb),
        store=_gib(settings.cache_budget_gb),
        prefix_cache=not settings.no_prefix_cache,
        session_cache=not settings.no_session_cache,
        disk=DiskSettings.of(settings.disk_tier),
        disk_folder=profile_folder(state.path / "caches/disk", model.name) if has_tier else None,
        spill_folder=profile_folder(state.path / "caches/spill", model.name) if settings.spill else None,
        mem_ceiling=_gib(settings.mem_ceiling_gib),
        mem_peak=_gib(settings.mem_peak_gib),
    )


def _gib(size: float | None) -> int | None:
    return None if size is None else int(size * 2**30)
