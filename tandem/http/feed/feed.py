"""One reader's feed over its whole life, and the two ways to send it (OBS-047, OBS-056 to OBS-058, API-244 to API-247).

A feed ends by itself when the server drains and when the session that opened it has ended. Everything else that ends
it is the reader's leaving: the task is cancelled, or, where it is held up by a reader that does not read, the generator
is closed at its `yield`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import trio
from quart import websocket

from tandem.http.feed.frames import PING, Frame, bye
from tandem.http.feed.readers import Place

__all__ = ["PING_S", "Feed", "Over", "Source", "stream", "talk"]

log = logging.getLogger(__name__)

PING_S = 15.0
GOING_AWAY, FAILED, SESSION_ENDED = 1001, 1011, 4401

Source = Callable[[], Awaitable[Sequence[Frame]]]
"""Waits for the next frames, one at least, and always with a checkpoint: a feed that is behind would let nobody else
run, and a websocket has none once its peer has gone. Raises `trio.EndOfChannel` where there will be no more. When it is
cancelled, nothing is lost that a reader could not do without."""


@dataclass(frozen=True, slots=True)
class Over:
    """The feed has ended: its last frame, and the code that closes a websocket."""

    frame: Frame
    code: int


class Feed:
    """What one reader is told, one `next` after the other."""

    def __init__(self, source: Source, place: Place, ends_at: float = math.inf) -> None:
        """`ends_at`, on trio's clock, is when the session ends that the reader depends on."""
        self._source = source
        self._place = place
        self._ends_at = ends_at
        self._ping_at = trio.current_time() + PING_S
        self._seq = 0

    async def next(self) -> Sequence[Frame] | Over:
        """The next frames, none where it is time for a ping, or the end."""
        frames: Sequence[Frame] = ()
        with self._place.waits(min(self._ping_at, self._ends_at)):
            try:
                frames = await self._source()
            except trio.EndOfChannel:
                return Over(bye(self._seq, "off"), FAILED)
        if frames:
            self._seq = frames[-1].seq
            return frames
        if self._place.is_over:
            return Over(bye(self._seq, "draining"), GOING_AWAY)
        if trio.current_time() >= self._ends_at:
            return Over(bye(self._seq, "session"), SESSION_ENDED)
        self._ping_at = trio.current_time() + PING_S
        return ()


async def stream(feed: Feed) -> AsyncIterator[bytes]:  # noqa: ASYNC900  Quart streams nothing else
    """The feed as server-sent events. Its first piece comes at once, so that the head of the response is sent."""
    yield PING
    while not isinstance(step := await feed.next(), Over):
        yield b"".join(frame.as_sse() for frame in step) or PING
    yield step.frame.as_sse()


async def talk(feed: Feed) -> None:
    """The feed over the present websocket, which is closed at its end. What the peer says is dropped."""
    await websocket.accept()
    code = FAILED
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drop_what_comes)
            while not isinstance(step := await feed.next(), Over):
                for frame in step:
                    await websocket.send(frame.as_text())
            await websocket.send(step.frame.as_text())
            code = step.code
            nursery.cancel_scope.cancel()
    except* Exception:
        log.exception("[http] a feed failed")
    await websocket.close(code)


async def _drop_what_comes() -> None:
    while True:  # else Quart would stand still with its inbox full, and never learn that the peer has gone
        await websocket.receive()
