"""The service: opens the nurseries, starts and wires the actors, drains.

Nesting, outermost first: the engine host (`tandem.build`); store and watchdog; turn scheduler, slots and queue; then
whatever serves HTTP (`tandem.serve` or `tandem.asgi`). What is inside may use what is outside until its own end. Adding
an actor is a new file and one line of wiring in `open_service`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import trio

from tandem.actors.choosing import SlotRules
from tandem.actors.host import EngineHost
from tandem.actors.keeper import Keeper, Spill
from tandem.actors.kit import Actor, ActorGone, Blocking, Ref, WallClock, supervise
from tandem.actors.lending import LaneRules
from tandem.actors.live import Live, Served
from tandem.actors.memory import MemoryKeeper
from tandem.actors.own import OwnWork, own_work
from tandem.actors.queue import Drain, Queue
from tandem.actors.reader import Reader
from tandem.actors.session_file import Write
from tandem.actors.slots import Slot, SlotMessage
from tandem.actors.store import Flush, Store
from tandem.actors.turns import Turns
from tandem.actors.watchdog import Watchdog, WatchdogMessage
from tandem.conducting import (
    conductor_kit,
    document_keeper,
    open_sessions,
    push_notifier,
    session_keeper,
    session_monitor,
)
from tandem.config import Settings
from tandem.engine.caches.caching import Caching
from tandem.engine.fake import FakeEngine
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.memory import GIB
from tandem.engine.verbs import Engine
from tandem.http.access.rules import Access
from tandem.http.context import SERVED_NAME, Context
from tandem.http.openai.images import Geometry, sight_of
from tandem.http.replays import open_responses
from tandem.http.watching import sweep, tell_push
from tandem.identity import Identity
from tandem.log import LogBook
from tandem.process import memory_of
from tandem.secrets import Secrets

if TYPE_CHECKING:
    from tandem.http.images import ImageLoader

__all__ = ["Parts", "Service", "ServiceEngine", "drain", "open_service"]

log = logging.getLogger(__name__)

LAST_PIECES_S = 60.0
"""How long a drain waits for clients to read what is ready for them."""


class ServiceEngine(Engine[Any, Any], Caching, Protocol):
    """What the service needs of an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What differs between a real service and one under the mock clock. The host runs already."""

    engine: ServiceEngine
    host: EngineHost
    store: Store
    blocking: Blocking
    wall: WallClock
    identity: Identity = field(default_factory=Identity)
    logs: LogBook = field(default_factory=LogBook)
    images: ImageLoader | None = None
    """None: one is made from the settings where the model sees."""
    available: Callable[[], int | None] = lambda: None
    """Bytes of memory that could be taken now; None where nobody knows, which admits every request."""
    floor: int = 0
    """Bytes of them that a request beside others leaves free, where no setting says so."""
    conductor_dir: Path | None = None
    """Where the conductor's documents are, where STATE is not the one that the settings name."""
    reader: Reader | None = None
    """What reads conversations while nothing else runs; None: nobody does."""


@dataclass(slots=True)
class Service:
    """A running service: its context, its slots, and whether something essential has broken."""

    context: Context
    slots: tuple[Ref[SlotMessage], ...]
    stop: trio.Event
    """Set when the service is to drain: by a signal, or by the defect of an essential actor."""
    own: OwnWork
    """For whoever has work for it."""


@asynccontextmanager
async def open_service(settings: Settings, parts: Parts, access: Access | None = None) -> AsyncIterator[Service]:
    """Everything but the HTTP server. Leaving the block cancels what runs; `drain` first to let it finish.

    Without `access` no secret is set, and the settings alone say who may do what.
    """
    responses = open_responses(settings)
    live = _live_hub(settings, parts)
    watchdog = Watchdog(
        sweep_s=settings.conductor_watch_s,
        stuck_s=settings.stuck_s,
        sweeps=[] if responses is None else [responses.sweep],
        live=live.ref,
    )
    turns = _turn_scheduler(settings, parts, watchdog.ref)
    own = own_work(
        engine=parts.engine,
        host=parts.host,
        turns=turns.ref,
        watchdog=watchdog.ref,
        prepares=settings.summary_ahead,
        reader=parts.reader,
    )
    queue = Queue(
        max_queue=settings.max_queue,
        watchdog=watchdog.ref,
        live=live.ref,
        windows=own.ref,
        rules=_slot_rules(settings, parts.engine),
    )
    keeper = Keeper(
        engine=parts.engine,
        host=parts.host,
        turns=turns.ref,
        queue=queue.ref,
        blocking=parts.blocking,
        wall=parts.wall,
    )
    own.begin_with(queue.ref, keeper.ref)
    memory = _memory_keeper(settings, parts, watchdog.ref)
    watched = session_monitor(settings, parts, parts.engine.card, parts.engine.text)
    documents = document_keeper(settings, parts, keeper.ref, watched)
    sessions = await open_sessions(settings, parts)
    session_file = session_keeper(settings, parts, sessions)
    slots = [
        Slot(
            index,
            engine=engine,
            host=parts.host,
            turns=turns.ref,
            queue=queue.ref,
            watchdog=watchdog.ref,
            keeper=keeper.ref,
            first=parts.engine if len(parts.engine.slots) > 1 else None,
            lender=parts.engine if index == 0 else None,
            lane=LaneRules(settings.side_lane, settings.side_lane_prompt_max, settings.side_lane_new_max),
            settles=settings.parallel_settle,
            timed=settings.parallel_timing,
            queue_timeout_s=settings.queue_timeout,
            memory=None if memory is None else memory.ref,
        )
        for index, engine in enumerate(parts.engine.slots)
    ]
    for index, slot in enumerate(slots):
        queue.add_slot(index, slot.ref)
    context = Context(
        settings=settings,
        card=parts.engine.card,
        text=parts.engine.text,
        grammars=Grammars(parts.engine.text),
        queue=queue.ref,
        store=parts.store.ref,
        watchdog=watchdog.ref,
        live=live.ref,
        keeper=keeper.ref,
        documents=None if documents is None else documents.ref,
        kit=conductor_kit(settings, parts, parts.engine.card, parts.engine.text),
        monitor=None if watched is None else watched.monitor,
        sessions=sessions,
        session_file=None if session_file is None else session_file.ref,
        blocking=parts.blocking,
        wall=parts.wall,
        started_at=trio.current_time(),
        created=parts.wall.now(),
        identity=parts.identity,
        logs=parts.logs,
        images=_image_loader(settings, parts),
        engine_state=parts.engine.state,
        engine_cost=parts.engine.cost,
        engine_caches=parts.engine.caches,
        engine_memory=parts.engine.memory,
        responses=responses,
        access=access or Access.from_settings(settings, Secrets()),
    )
    service = Service(context, tuple(slot.ref for slot in slots), trio.Event(), own)
    essential: list[Actor[Any]] = [queue, turns, *([] if memory is None else [memory]), *slots]
    is_fake = isinstance(parts.engine, FakeEngine)
    notifier = None if is_fake else push_notifier(settings, parts, watched, partial(tell_push, context))
    watchdog.also(partial(sweep, context, None if notifier is None else notifier.ref))
    kept = [actor for actor in (documents, session_file, notifier) if actor is not None]
    optional: list[Actor[Any]] = [keeper, *kept, *own.actors]
    foundations: list[Actor[Any]] = [parts.store, watchdog, live]
    for actor in (*essential, *optional, parts.store, live):
        watchdog.watch(actor.ref)

    def on_defect(name: str, _defect: Exception) -> None:
        if any(actor.ref.name == name and actor.essential for actor in (*essential, *foundations)):
            log.error("[service] %s has failed: draining", name)
            context.broken.append(name)
            service.stop.set()
        else:
            log.error("[service] %s stays off", name)
            context.switched_off.append(name)

    async with trio.open_nursery() as outer:
        for actor in foundations:
            await outer.start(partial(supervise, actor, on_defect))
        async with trio.open_nursery() as inner:
            for actor in (*essential, *optional):
                await inner.start(partial(supervise, actor, on_defect))
            try:
                yield service
            finally:
                inner.cancel_scope.cancel()
        outer.cancel_scope.cancel()


def _turn_scheduler(settings: Settings, parts: Parts, watchdog: Ref[WatchdogMessage]) -> Turns:
    return Turns(
        quantum_s=settings.turn_quantum_ms / 1e3,
        batch_timeout_s=settings.batch_timeout_ms / 1e3,
        watchdog=watchdog if len(parts.engine.slots) > 1 else None,
        timed=settings.parallel_timing,
    )


def _slot_rules(settings: Settings, engine: ServiceEngine) -> SlotRules:
    card = engine.slots[-1].card  # the side slots are alike
    return SlotRules(side_window=card.max_len, guest_max=settings.resident_guest_max, chunk=card.anchor_grid)


def _memory_keeper(settings: Settings, parts: Parts, watchdog: Ref[WatchdogMessage]) -> MemoryKeeper | None:
    """None with one slot: what is alone in flight is always admitted."""
    if len(parts.engine.slots) == 1:
        return None
    floor = parts.floor if settings.parallel_floor_gb is None else int(settings.parallel_floor_gb * GIB)
    return MemoryKeeper(available=parts.available, view=parts.engine.memory, floor=floor, watchdog=watchdog)


def _live_hub(settings: Settings, parts: Parts) -> Live:
    card = parts.engine.card
    served = Served(
        model=SERVED_NAME,
        base_model=card.name,
        version=parts.identity.version,
        window=card.max_len,
        slots=len(parts.engine.slots),
    )
    return Live(
        served,
        hz=int(settings.live_hz),
        shows_activity=settings.live_activity,
        max_readers=settings.live_max_readers,
        wall=parts.wall,
        memory=memory_of,
    )


def _image_loader(settings: Settings, parts: Parts) -> ImageLoader | None:
    if sight_of(parts.engine.card.images, settings.vision) != "sees":
        return None
    # Pillow and the fetch take a while to import, which no other service need wait for.
    from tandem.http.images import ImageLoader

    return parts.images or ImageLoader.from_settings(settings, parts.engine.card.geometry or Geometry(), parts.blocking)


async def drain(context: Context) -> None:
    """No new work; returns when what ran has been answered and written down (API-202, SCH-092, SCH-095)."""
    try:
        await context.queue.ask(Drain)
    except ActorGone:
        log.error("[service] the queue has ended: nothing to wait for")
    context.leaving.set()
    context.readers.send_away()
    await _spill(context)
    with trio.move_on_after(LAST_PIECES_S):
        await context.traffic.wait_idle()
    await _keep_sessions(context)
    try:
        await context.store.ask(Flush)
    except ActorGone:
        log.error("[service] the store has ended: its last rows are lost")


async def _keep_sessions(context: Context) -> None:
    try:
        if context.session_file is not None:
            await context.session_file.ask(Write)
    except ActorGone:
        log.error("[service] the session file's actor has ended: what the sessions have learned since is lost")


async def _spill(context: Context) -> None:
    """The conversation is kept for the next start (API-205), unless the drain is in a hurry (SCH-096)."""
    if context.hurry.is_set():
        return
    async with trio.open_nursery() as nursery:

        async def give_up() -> None:
            await context.hurry.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(give_up)
        try:
            await context.keeper.ask(Spill)
        except ActorGone:
            log.error("[service] the keeper has ended: no conversation is kept for the next start")
        nursery.cancel_scope.cancel()
