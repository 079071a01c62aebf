"""GET /v1/conductor/…: the reads of the journal (OBS-030, API-232, API-236, API-250).

Without --conductor-config there is no conductor, and none of these routes.
"""

from __future__ import annotations

from typing import Any

from quart import Blueprint, Response, request

from tandem.conductor.sessions import SessionState
from tandem.http.context import Context, context
from tandem.http.openai import errors
from tandem.http.openai.errors import ApiError
from tandem.http.query import Parameters
from tandem.http.reading import read
from tandem.http.responses import data_response
from tandem.store.journal_overview import overview_query
from tandem.store.journal_reads import Events, decisions_query, events_query, session_query, sessions_query

__all__ = ["blueprint"]

blueprint = Blueprint("conductor", __name__)

PAGE, LARGEST_PAGE = 50, 500
TIMELINE = 2000
"""The most rows of one session."""


@blueprint.get("/v1/conductor/events")
async def events() -> Response:
    here, parameters = _start()
    wanted = Events(
        kind=parameters.text("kind"),
        task=parameters.text("task"),
        session=parameters.text("session"),
        mode=parameters.text("mode"),
        request_id=parameters.text("request_id"),
        since=parameters.whole("since", 0),
        before=parameters.whole("before", 1),
        findings=parameters.switch("findings"),
    )
    limit = _limit(parameters)
    parameters.end()
    page = await read(here, events_query(wanted, limit))
    return data_response({"events": page.events, "next_before": page.next_before})


@blueprint.get("/v1/conductor/decisions")
async def decisions() -> Response:
    here, parameters = _start()
    session, before = parameters.text("session"), parameters.whole("before", 1)
    limit = _limit(parameters)
    parameters.end()
    page = await read(here, decisions_query(session, before, limit))
    return data_response({"decisions": page.events, "next_before": page.next_before})


@blueprint.get("/v1/conductor/overview")
async def overview() -> Response:
    here, parameters = _start()
    profile = parameters.text("profile")
    parameters.end()
    now_ms = int(here.wall.now().timestamp() * 1e3)
    return data_response(await read(here, overview_query(now_ms, profile)))


@blueprint.get("/v1/conductor/sessions")
async def sessions() -> Response:
    here, parameters = _start()
    limit = _limit(parameters)
    parameters.end()
    found = await read(here, sessions_query(limit))
    live = {state.view.key: _live(state) for state in here.sessions.states() if state.view.turns}
    return data_response({"sessions": [{**one, **live.get(one["key"], {})} for one in found]})


@blueprint.get("/v1/conductor/sessions/<path:key>")
async def session(key: str) -> Response:
    here, parameters = _start()
    parameters.end()
    found = await read(here, session_query(key, TIMELINE))
    if found is None:
        raise ApiError(404, "the journal has no row of this session")
    return data_response({"session": found.figures, "events": found.events, "cut": found.cut})


def _live(state: SessionState) -> dict[str, Any]:
    """What is remembered of a session (SES-008)."""
    view = state.view
    told = {
        "client_kind": state.client.rpartition("|")[2],
        "class": view.class_id,
        "turns": view.turns,
        "notes": len(view.notes),
        "note_tokens": sum(note.tokens for note in view.notes),
    }
    return {"live": told}


def _start() -> tuple[Context, Parameters]:
    here = context()
    if here.settings.conductor_config is None:
        raise errors.no_conductor(request.path)
    return here, Parameters(request.args)


def _limit(parameters: Parameters) -> int:
    return parameters.whole("limit", 1, LARGEST_PAGE) or PAGE
