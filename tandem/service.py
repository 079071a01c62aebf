"""The service: opens the nurseries, starts and wires the actors, drains.

Nesting, outermost first: the engine host (`tandem.build`); store and watchdog; turn scheduler, slot and queue; then
whatever serves HTTP (`tandem.serve` or `tandem.asgi`). What is inside may use what is outside until its own end. Adding
an actor is a new file and one line of wiring in `open_service`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import trio

from tandem.actors.host import EngineHost
from tandem.actors.keeper import Keeper, Spill
from tandem.actors.kit import Actor, ActorGone, Blocking, Ref, WallClock, supervise
from tandem.actors.live import Live, Served
from tandem.actors.queue import Drain, Queue
from tandem.actors.slots import Slot, SlotMessage
from tandem.actors.store import Flush, Store
from tandem.actors.turns import Turns
from tandem.actors.watchdog import Watchdog
from tandem.config import Settings
from tandem.engine.caches.caching import Caching
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.verbs import Engine
from tandem.http.access.rules import Access
from tandem.http.context import SERVED_NAME, Context
from tandem.http.openai.images import Geometry, sight_of
from tandem.http.replays import open_responses
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


@dataclass(slots=True)
class Service:
    """A running service: its context, its slot, and whether something essential has broken."""

    context: Context
    slot: Ref[SlotMessage]
    stop: trio.Event
    """Set when the service is to drain: by a signal, or by the defect of an essential actor."""


@asynccontextmanager
async def open_service(settings: Settings, parts: Parts, access: Access | None = None) -> AsyncIterator[Service]:
    """Everything but the HTTP server. Leaving the block cancels what runs; `drain` first to let it finish.

    Without `access` no secret is set, and the settings alone say who may do what.
    """
    watchdog = Watchdog(sweep_s=settings.conductor_watch_s, stuck_s=settings.stuck_s)
    turns = Turns(quantum_s=settings.turn_quantum_ms / 1e3)
    live = _live_hub(settings, parts)
    queue = Queue(max_queue=settings.max_queue, watchdog=watchdog.ref, live=live.ref)
    keeper = Keeper(
        engine=parts.engine,
        host=parts.host,
        turns=turns.ref,
        queue=queue.ref,
        blocking=parts.blocking,
        wall=parts.wall,
    )
    slot = Slot(
        0,
        engine=parts.engine,
        host=parts.host,
        turns=turns.ref,
        queue=queue.ref,
        watchdog=watchdog.ref,
        keeper=keeper.ref,
    )
    queue.add_slot(0, slot.ref)
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
        responses=open_responses(settings),
        access=access or Access.from_settings(settings, Secrets()),
    )
    service = Service(context, slot.ref, trio.Event())
    essential: list[Actor[Any]] = [queue, turns, slot]
    own_work: list[Actor[Any]] = [keeper]
    foundations: list[Actor[Any]] = [parts.store, watchdog, live]
    for actor in (*essential, *own_work, parts.store, live):
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
            for actor in (*essential, *own_work):
                await inner.start(partial(supervise, actor, on_defect))
            try:
                yield service
            finally:
                inner.cancel_scope.cancel()
        outer.cancel_scope.cancel()


def _live_hub(settings: Settings, parts: Parts) -> Live:
    card = parts.engine.card
    served = Served(model=SERVED_NAME, base_model=card.name, version=parts.identity.version, window=card.max_len)
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
    try:
        await context.store.ask(Flush)
    except ActorGone:
        log.error("[service] the store has ended: its last rows are lost")


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
