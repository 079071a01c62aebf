"""GET /v1/dashboard/logs: the newest log lines, by the page or as they come (OBS-047, API-246)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
from quart import Blueprint, Response, request, websocket
from werkzeug.datastructures import Headers

from tandem.http.context import Context, context
from tandem.http.feed.feed import Feed, talk
from tandem.http.feed.logs import LEVELS, LogFollower, Wanted, newest_lines
from tandem.http.feed.serving import open_feed, page_response, stream_feed, take_place
from tandem.http.openai.errors import invalid
from tandem.http.query import MAX_WHOLE, Parameters
from tandem.http.responses import CONTRACT_VERSION
from tandem.logbook import LINES_KEPT

__all__ = ["MAX_READERS", "blueprint"]

blueprint = Blueprint("logs", __name__)

PATH = "/v1/dashboard/logs"
MAX_READERS = 4
LINES = 500
"""How many lines a caller gets who names no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the URL asks for."""

    follow: bool
    since: int | None
    limit: int
    wanted: Wanted


@blueprint.get(PATH)
async def logs() -> Response:
    asked = _read(Parameters(request.args), request.headers)
    return stream_feed(_open(context(), asked)) if asked.follow else page_response(_page(context(), asked))


@blueprint.websocket(PATH)
async def logs_socket() -> None:
    await talk(_open(context(), _read(Parameters(websocket.args), websocket.headers)))


def _read(parameters: Parameters, headers: Headers) -> _Asked:
    asked = _Asked(
        follow=parameters.switch("follow"),
        since=parameters.whole("since", 0),
        limit=parameters.whole("limit", 1, LINES_KEPT) or LINES,
        wanted=Wanted(
            level=parameters.word("level", LEVELS),
            source=parameters.text("source"),
            request_id=parameters.text("request_id"),
            text=parameters.text("text"),
        ),
    )
    parameters.end()
    # A browser that connects again repeats its URL, and says in the header how far it has come since.
    last = headers.get("Last-Event-ID")
    return replace(asked, since=_last_event(last)) if last else asked


def _last_event(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_WHOLE)):
        return int(text)
    raise invalid("Last-Event-ID", "Last-Event-ID must be the id of an event of this feed")


def _page(here: Context, asked: _Asked) -> bytes:
    """The newest lines, or those behind `since`, oldest first; `lost` of the latter were too old to be kept."""
    book = here.logs
    newest, lost = book.newest, 0
    if asked.since is None or asked.since > newest:  # from before a restart
        lines = newest_lines(book, asked.wanted, asked.limit)
    else:
        held, lost = book.after(asked.since, LINES_KEPT)
        lines = [line for line in held if asked.wanted(line)][: asked.limit]
    page = {"contract_version": CONTRACT_VERSION, "lines": lines, "newest": newest, "lost": lost}
    return msgspec.json.encode(page)


def _open(here: Context, asked: _Asked) -> Feed:
    place = take_place(here, "log", MAX_READERS)
    follower = LogFollower(here.logs, asked.wanted, since=asked.since, backlog=asked.limit)
    return open_feed(here, place, follower.next)
