"""From a request that is found out about to what a slot runs: one `Generation` a choice, and where it may think to."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tandem.engine.decoding.generation import Generation, ReasoningCap
from tandem.engine.decoding.seams import Reader
from tandem.engine.verbs import Mask
from tandem.http.context import Context
from tandem.http.endpoint import Asked, Endpoint
from tandem.http.monitoring import Monitoring
from tandem.http.openai.requests import Request
from tandem.http.record import RequestRecord

__all__ = ["generations"]

log = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=Request)


def generations(
    context: Context,
    endpoint: Endpoint[RequestT],
    record: RequestRecord,
    asked: Asked[RequestT],
    masks: Sequence[Mask | None],
    monitoring: Monitoring | None,
) -> tuple[Generation, ...]:
    """One a choice, with the mask of its index; the monitor looks at the first alone."""
    first = Generation(
        asked.prompt,
        replace(asked.request.rules, mask=masks[0]),
        limit=asked.limit,
        reader=_reader(context, endpoint, record, asked),
        end_ids=context.text.end_ids,
        grid=context.card.anchor_grid,
        arrived_at=record.arrived_at,
        reasoning_cap=_cap(context, endpoint, record, asked, monitoring),
        window=context.card.max_len,
        supervisor=None if monitoring is None else monitoring.supervisor,
    )
    unseen = replace(asked, watch=None)
    others = (
        first.for_choice(index, _reader(context, endpoint, record, unseen), masks[index])
        for index in range(1, asked.request.n)
    )
    return (first, *others)


def _reader(context: Context, endpoint: Endpoint[RequestT], record: RequestRecord, asked: Asked[RequestT]) -> Reader:
    reader = endpoint.reader(asked, context)
    record.readers.append(reader)
    return reader


def _cap(
    context: Context,
    endpoint: Endpoint[RequestT],
    record: RequestRecord,
    asked: Asked[RequestT],
    monitoring: Monitoring | None,
) -> ReasoningCap | None:
    cap = endpoint.cap(asked, context)
    if monitoring is not None:
        cap = monitoring.cap(cap)
    record.budget = told = endpoint.told_budget(asked, cap, context)
    if budget := told.get("client_budget"):
        words = " ".join(f"{name}={value}" for name, value in budget.items())
        log.info("[think] %s %s", record.request_id, words)
    return cap
