"""How a route opens a feed: a place among its readers, the end of the caller's session, and the response."""

from __future__ import annotations

import math

import trio
from quart import Response, request

from tandem.http.context import Context
from tandem.http.edge import at_exit, only_watches
from tandem.http.feed.feed import Feed, Source, stream
from tandem.http.feed.readers import Place
from tandem.http.gate import asked
from tandem.http.openai import errors
from tandem.http.responses import json_response, stream_response

__all__ = ["NO_STORE", "open_feed", "page_response", "stream_feed", "take_place"]

NO_STORE = {"Cache-Control": "no-store"}


def take_place(here: Context, kind: str, most: int) -> Place:
    """A place among `most` readers until the present request or websocket has ended. Raises `ApiError` 429."""
    place = here.readers.take(kind, most)
    if place is None:
        raise errors.too_many_readers(most)
    at_exit(place.aclose)
    return place


def open_feed(here: Context, place: Place, source: Source) -> Feed:
    """A feed that also ends with the caller's session, where that alone lets it in."""
    seen = asked()
    ends = here.access.watch_ends(seen)
    return Feed(source, place, math.inf if ends is None else trio.current_time() + ends - seen.now)


def page_response(body: bytes) -> Response:
    """What there is now, as JSON."""
    return json_response(body, NO_STORE)


def stream_feed(feed: Feed) -> Response:
    """The feed as the present request's response; a HEAD gets its headers alone."""
    only_watches()
    response = stream_response(stream(feed), NO_STORE)
    if request.method == "HEAD":
        response.set_data(b"")
    return response
