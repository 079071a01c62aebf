"""Builds the engine that the settings ask for, and the parts of a service around it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tandem.actors.host import InlineHost, ThreadHost
from tandem.actors.kit import SystemWallClock, Threads
from tandem.actors.store import Store
from tandem.config import Settings
from tandem.engine.fake import FakeEngine
from tandem.engine.verbs import Engine
from tandem.service import Parts
from tandem.state import State
from tandem.store.aio import open_aio

__all__ = ["Progress", "build_engine", "build_parts"]

Progress = Callable[[str, int, int], None]
"""What is under way, how much of it is done, and all of it."""

THREADS = {"prompt": 1, "body": 1}
"""Worker threads a purpose may use at once; the engine and the event loop need the cores."""


def build_engine(settings: Settings, state: State, progress: Progress) -> Engine[Any, Any]:
    """Load the model, fetching the embedded one where it is asked for and missing. Raises `CheckpointError`."""
    if settings.fake:
        return FakeEngine(max_len=settings.max_len, grid=settings.prefix_chunk)
    # torch takes a second to import, which --fake and the other commands need not wait for.
    from tandem.engine.checkpoints.embedded import ensure
    from tandem.engine.checkpoints.load import resolve_model
    from tandem.engine.load import load_engine

    if settings.model is None:
        path: Path = ensure(state.path, partial(progress, "fetching the embedded model"))
    else:
        path = resolve_model(settings.model, state.path)
    return load_engine(
        path,
        max_len=settings.max_len,
        grid=settings.prefix_chunk,
        name=settings.model_name,
        threads=settings.threads,
        progress=partial(progress, "loading the model"),
    )


def build_parts(settings: Settings, state: State, engine: Engine[Any, Any]) -> Parts:
    """The parts of a real service; inside `trio.run`."""
    wall = SystemWallClock()
    ledger = None if settings.usage_ledger is None else partial(open_aio, state.path / settings.usage_ledger)
    return Parts(
        engine=engine,
        host=InlineHost(engine) if isinstance(engine, FakeEngine) else ThreadHost(),
        store=Store(ledger, wall),
        blocking=Threads.with_limits(THREADS),
        wall=wall,
    )
