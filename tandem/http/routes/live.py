"""GET /v1/dashboard/live: the live view as JSON, as server-sent events and over a websocket (OBS-056 to OBS-062)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from quart import Blueprint, Response, request, websocket

from tandem.actors.kit import ActorGone
from tandem.actors.live import Look, Unwatch, Watch
from tandem.http.context import Context, context
from tandem.http.edge import at_exit
from tandem.http.feed.feed import Feed, talk
from tandem.http.feed.frames import Frame, gap
from tandem.http.feed.serving import open_feed, page_response, stream_feed, take_place
from tandem.http.openai import errors
from tandem.http.query import Parameters
from tandem.live.reader import Reader

__all__ = ["blueprint"]

blueprint = Blueprint("live", __name__)

PATH = "/v1/dashboard/live"


@blueprint.get(PATH)
async def live() -> Response:
    here = context()
    follow = _follow(Parameters(request.args))
    return stream_feed(await _open(here)) if follow else page_response(await _look(here))


@blueprint.websocket(PATH)
async def live_socket() -> None:
    _follow(Parameters(websocket.args))
    await talk(await _open(context()))


def _follow(parameters: Parameters) -> bool:
    follow = parameters.switch("follow")
    parameters.end()
    return follow


async def _look(here: Context) -> bytes:
    try:
        document: bytes = await here.live.ask(Look)
    except ActorGone:
        raise errors.live_off() from None
    return document


async def _open(here: Context) -> Feed:
    """The first event has history; after a lost connection too, so where the last one ended does not matter."""
    most = here.settings.live_max_readers
    place = take_place(here, "live", most)
    try:
        reader: Reader | None = await here.live.ask(Watch)
    except ActorGone:
        raise errors.live_off() from None
    if reader is None:
        raise errors.too_many_readers(most)
    at_exit(partial(_leave, here, reader))

    async def next_frames() -> Sequence[Frame]:
        event = await reader.next()
        frame = Frame("live", event.seq, event.data)
        return [gap(event.seq - 1, event.lost), frame] if event.lost else [frame]

    return open_feed(here, place, next_frames)


async def _leave(here: Context, reader: Reader) -> None:
    with suppress(ActorGone):
        await here.live.tell(Unwatch(reader))
