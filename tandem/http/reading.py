"""How a route reads the ledger: through the store actor, with what is made of the rows off the event loop."""

from __future__ import annotations

import logging
from typing import TypeVar

from tandem.actors.kit import ActorGone
from tandem.actors.store import Read
from tandem.http.context import Context
from tandem.http.openai import errors
from tandem.store.ledger import StoreError
from tandem.store.query import Query, Rows

__all__ = ["read"]

log = logging.getLogger(__name__)

T = TypeVar("T")


async def read(here: Context, query: Query[T]) -> T:
    """What the query makes of the ledger's rows. Raises `ApiError` 500 where the store cannot tell."""
    try:
        answer: list[Rows] | StoreError = await here.store.ask(lambda reply: Read(query.statements, reply))
    except ActorGone:
        log.error("[ledger] a read failed: the store has ended")
        raise errors.internal() from None
    if isinstance(answer, StoreError):
        log.error("[ledger] a read failed: %s", str(answer))
        raise errors.internal()
    return await here.blocking.run("usage", query.fold, answer)
