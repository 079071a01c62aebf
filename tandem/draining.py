"""The end of a service: what runs is answered, and what is to outlive the process is written (API-202, SCH-092)."""

from __future__ import annotations

import logging

import trio

from tandem.actors.keeper import Spill
from tandem.actors.kit import ActorGone
from tandem.actors.queue import Drain
from tandem.actors.session_file import Write
from tandem.actors.store import Flush
from tandem.http.context import Context

__all__ = ["drain"]

log = logging.getLogger(__name__)

LAST_PIECES_S = 60.0
"""How long a drain waits for clients to read what is ready for them."""


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
