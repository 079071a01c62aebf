"""From the settings to the parts of a real service: the checkpoint found, the engine loaded on its own thread."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tandem.actors.host import InlineHost, open_host
from tandem.actors.kit import SystemWallClock, Threads
from tandem.actors.store import Store
from tandem.config import Settings
from tandem.engine.errors import CheckpointError
from tandem.engine.fake import FakeEngine
from tandem.engine.verbs import Engine
from tandem.identity import identify
from tandem.log import LogBook
from tandem.service import Parts
from tandem.state import State
from tandem.store.aio import open_aio

__all__ = ["Progress", "find_model", "open_parts"]

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""What is under way, how much of it is done, and all of it."""

THREADS = {"prompt": 1, "body": 1, "grammar": 1, "image": 1, "docs": 1, "usage": 1}
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
            engine = await host.run_job(partial(_load, settings, model, progress))
        except CheckpointError as error:
            failure = error  # raised outside the host's nursery, which would wrap it into a group
        else:
            yield parts(engine=engine, host=host)
    if failure is not None:
        raise failure


def _load(settings: Settings, model: Path, progress: Progress) -> Engine[Any, Any]:
    # torch takes a second to import, which --fake and the other commands need not wait for.
    from tandem.engine.checkpoints.overlay import Overlays
    from tandem.engine.load import load_engine
    from tandem.engine.memory import GIB, default_threads

    engine = load_engine(
        model,
        max_len=settings.max_len,
        grid=settings.prefix_chunk,
        name=settings.model_name,
        threads=settings.threads or default_threads(),
        cpu_weights=settings.cpu_weights,
        margin=None if settings.load_margin_gib is None else int(settings.load_margin_gib * GIB),
        overlays=Overlays(settings.nvfp4, settings.fp8_head),
        vision=settings.vision,
        image_cache=settings.image_cache_mb * 2**20,
        progress=partial(progress, "loading the model"),
    )
    unused = engine.card.weights.get("unused")
    if isinstance(unused, list) and unused:
        log.warning("[model] the checkpoint has tensors that nothing asked for: %s", ", ".join(unused))
    lacks = engine.card.weights.get("template_lacks")
    if isinstance(lacks, list) and lacks:
        log.info("[model] the chat template has no place for %s: served without", " and ".join(lacks))
    return engine
