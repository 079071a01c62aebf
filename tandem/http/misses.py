"""Tells why a follow-up's prompt was read again: a row of the journal and a line of the log (ENG-177, OBS-021)."""

from __future__ import annotations

import logging
from dataclasses import asdict

from tandem.conductor.misses import Miss, Turn, find_miss
from tandem.http.context import Context
from tandem.http.record import RequestRecord
from tandem.store.journal import JournalRow

__all__ = ["tell_miss"]

log = logging.getLogger(__name__)

LONG_PROMPT = 2_000
"""Tokens above which the search may take over 5 ms and goes to a worker thread."""


async def tell_miss(context: Context, record: RequestRecord) -> None:
    """Look at a request that has ended. Whatever fails here concerns nobody but the log."""
    turn = record.turn()
    last = None if turn is None else context.misses.swap(turn)
    if turn is None or last is None:
        return
    given = last, turn, context.text
    try:
        if len(turn.prompt.ids) > LONG_PROMPT:
            miss = await context.blocking.run("miss", find_miss, *given)
        else:
            miss = find_miss(*given)
    except Exception:
        log.exception("[cache] %s its miss was not explained", record.request_id)
        return
    if miss is not None:
        log.info("[cache] %s %s", record.request_id, miss.words)
        context.journal([_row(context, record, turn, miss)])


def _row(context: Context, record: RequestRecord, turn: Turn, miss: Miss) -> JournalRow:
    where, parting = miss.where, miss.parting
    return JournalRow(
        ts_ms=int(context.wall.now().timestamp() * 1e3),
        kind="miss",
        request_id=record.request_id,
        session_key=turn.session,
        client_kind=record.kind,
        mode=record.mode,
        decision=where.text,
        position=parting.position,
        summary=miss.words,
        detail=asdict(where) | asdict(parting) | {"seconds": round(miss.seconds, 3)},
    )
