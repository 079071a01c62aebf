"""GET /v1/dashboard/summary, usage and requests: what the ledger says (OBS-087, OBS-088, OBS-113, API-243).

Without a ledger all figures are zero, all lists are empty and `ledger.enabled` says why.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
from quart import Blueprint, Response, current_app, request

from tandem.http import facts
from tandem.http.context import Context, context
from tandem.http.openai import errors
from tandem.http.query import Parameters
from tandem.http.reading import read
from tandem.http.responses import data_response
from tandem.http.zones import BUCKETS, read_spans, read_zone
from tandem.store.buckets import FINISHES
from tandem.store.query import Query
from tandem.store.requests import EXPORT_ROWS, Page, Wanted, csv_page, json_page, page_query
from tandem.store.spans import local
from tandem.store.usage import Filters, summary_query, usage_query

__all__ = ["blueprint"]

blueprint = Blueprint("usage", __name__)

PAGE, LARGEST_PAGE = 50, 200
EXPORT_PAGE = 1000
"""Rows of an export that are in memory at a time."""
FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


@blueprint.get("/v1/dashboard/summary")
async def summary() -> Response:
    here, parameters = context(), Parameters(request.args)
    zone = read_zone(parameters)
    parameters.end()
    now = here.wall.now()
    found = await read(here, summary_query(now, zone))
    return data_response(
        {
            "generated_at": local(now, zone).isoformat(timespec="milliseconds"),
            "tz": zone.key,
            **found,
            "ledger": await _ledger(here),
            "live": await _live(here),
        }
    )


@blueprint.get("/v1/dashboard/usage")
async def usage() -> Response:
    here, parameters = context(), Parameters(request.args)
    now, zone = here.wall.now(), read_zone(parameters)
    bucket = parameters.word("bucket", BUCKETS) or "day"
    filters = Filters(model=parameters.text("model"), client=parameters.text("client"))
    spans = read_spans(parameters, bucket, zone, now)
    parameters.end()
    found = await read(here, usage_query(spans, zone, filters))
    return data_response(
        {
            "generated_at": local(now, zone).isoformat(timespec="milliseconds"),
            "tz": zone.key,
            "bucket": bucket,
            "filters": msgspec.to_builtins(filters),
            "ledger": {"enabled": (await _ledger(here))["enabled"]},
            **found,
        }
    )


@blueprint.get("/v1/dashboard/requests")
async def requests() -> Response:
    here, parameters = context(), Parameters(request.args)
    wanted = Wanted(
        model=parameters.text("model"),
        client=parameters.text("client"),
        finish=parameters.word("finish", FINISHES),
        request_id=parameters.text("request_id"),
        before=parameters.whole("before", 1),
    )
    form = parameters.word("format", tuple(FORMATS))
    limit = parameters.whole("limit", 1, EXPORT_ROWS if form else LARGEST_PAGE)
    parameters.end()
    if form:
        return await _export(here, wanted, form, limit or EXPORT_ROWS)
    page = await read(here, page_query(wanted, limit or PAGE))
    filters = {name: getattr(wanted, name) for name in ("model", "client", "finish", "request_id")}
    return data_response(
        {
            "ledger": {"enabled": (await _ledger(here))["enabled"]},
            "limit": limit or PAGE,
            "filters": filters,
            "requests": page.named,
            "next_before": page.next_before,
        }
    )


async def _export(here: Context, wanted: Wanted, form: str, rows: int) -> Response:
    """The first page is read before the response begins, so that a ledger that cannot be read is an error."""
    first = await read(here, _part(wanted, form, rows, first=True))
    name = f"tandem-requests-{here.wall.now().date().isoformat()}.{form}"
    response: Response = current_app.response_class(
        _stream(here, wanted, form, rows, first),
        headers={"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'},
        content_type=FORMATS[form],
    )
    response.timeout = None
    if request.method == "HEAD":
        response.set_data(b"")
    return response


async def _stream(  # noqa: ASYNC900  Quart streams nothing else
    here: Context, wanted: Wanted, form: str, rows: int, first: tuple[bytes, Page]
) -> AsyncIterator[bytes]:
    part, page = first
    yield b"[" + part if form == "json" else part
    while page.next_before is not None and (rows := rows - len(page.rows)) > 0:
        wanted = replace(wanted, before=page.next_before)
        part, page = await read(here, _part(wanted, form, rows, first=False))
        yield part
    if form == "json":
        yield b"]\n"


def _part(wanted: Wanted, form: str, rows: int, *, first: bool) -> Query[tuple[bytes, Page]]:
    """The next rows, at most `rows`, encoded where they are folded: off the event loop."""
    query = page_query(wanted, min(rows, EXPORT_PAGE))
    encode = csv_page if form == "csv" else json_page

    def fold(answers: Any) -> tuple[bytes, Page]:
        page = query.fold(answers)
        return encode(page, first=first), page

    return Query(query.statements, fold)


async def _ledger(here: Context) -> dict[str, Any]:
    found = await facts.ledger_facts(here, math.inf)
    if found is None:
        raise errors.internal()
    return facts.ledger_block(found)


async def _live(here: Context) -> dict[str, Any]:
    """Whether the server works just now, in one word and two counts."""
    sight = await facts.look(here)
    if sight is None:
        return {"state": "failed", "running": 0, "waiting": 0}
    state = "draining" if sight.draining else "busy" if sight.running else "idle"
    return {"state": state, "running": sight.running, "waiting": sight.waiting}
