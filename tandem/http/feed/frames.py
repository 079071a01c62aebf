"""One thing told to a reader of a feed, and its two forms on the wire (OBS-056, OBS-057). Sans-I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["PING", "Frame", "Kind", "bye", "gap"]

Kind: TypeAlias = Literal["live", "log", "gap", "bye"]

PING = b": ping\n\n"
"""Nothing, so that proxies and clients see an open connection. A websocket has frames of its own for that."""


@dataclass(frozen=True, slots=True)
class Frame:
    """An event, a gap in the events, or the end."""

    kind: Kind
    seq: int
    data: bytes
    """JSON on one line."""

    def as_sse(self) -> bytes:
        """A server-sent event."""
        return b"event: %b\nid: %d\ndata: %b\n\n" % (self.kind.encode(), self.seq, self.data)

    def as_text(self) -> str:
        """The text of a websocket's message."""
        return f'{{"type":"{self.kind}","seq":{self.seq},"data":{self.data.decode()}}}'


def gap(seq: int, dropped: int) -> Frame:
    """`dropped` events are missing here, the last of them `seq`."""
    return Frame("gap", seq, b'{"dropped":%d}' % dropped)


def bye(seq: int, reason: str) -> Frame:
    """The last frame, after event `seq`. `reason` is `draining`, `session` where the caller's session has ended, or
    `off` where what made the events has failed."""
    return Frame("bye", seq, b'{"reason":"%b"}' % reason.encode())
