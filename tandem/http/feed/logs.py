"""What a reader of the log is told: the lines of the book that it wants to see, from some line on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import trio

from tandem.http.feed.frames import Frame, gap
from tandem.logbook import LINES_KEPT, LogBook, LogLine

__all__ = ["LEVELS", "LogFollower", "Wanted", "newest_lines"]

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
MOST = 200
"""Lines of the book that are looked at in one go."""
POLL_S = 0.25
"""How often a reader looks for new lines. They come from any thread, which would have to be told to wake the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines a reader wants to see."""

    level: str | None = None
    """This one and those above it."""
    source: str | None = None
    request_id: str | None = None
    text: str | None = None
    """A part of the message, in any case."""

    def __call__(self, line: LogLine) -> bool:
        return (
            (self.level is None or _rank(line.level) >= _rank(self.level))
            and self.source in (None, line.source)
            and self.request_id in (None, line.request_id)
            and (self.text is None or self.text.lower() in line.msg.lower())
        )


def _rank(level: str) -> int:
    return logging.getLevelNamesMapping().get(level, logging.INFO)


def newest_lines(book: LogBook, wanted: Wanted, most: int) -> list[LogLine]:
    """The newest that are wanted, oldest first."""
    lines, _ = book.after(0, LINES_KEPT)
    return [line for line in lines if wanted(line)][-most:]


class LogFollower:
    """The lines behind `since`, as frames, as they come."""

    def __init__(self, book: LogBook, wanted: Wanted, *, since: int | None, backlog: int) -> None:
        """Without `since`, and with one from before a restart, it begins with the newest `backlog` lines."""
        self._book = book
        self._wanted = wanted
        self._earlier: list[LogLine] = []
        if since is None or since > book.newest:
            since = book.newest
            self._earlier = [line for line in newest_lines(book, wanted, backlog) if line.seq <= since]
        self._seq = since

    async def next(self) -> Sequence[Frame]:
        """Waits for lines that are wanted, or for a gap."""
        await trio.lowlevel.checkpoint()
        while not (frames := self.take()):  # noqa: ASYNC110
            await trio.sleep(0 if self._seq < self._book.newest else POLL_S)
        return frames

    def take(self) -> list[Frame]:
        """What there is of them, up to a number."""
        if self._earlier:
            earlier, self._earlier = self._earlier, []
            return [_frame(line) for line in earlier]
        lines, lost = self._book.after(self._seq, MOST)
        frames = [gap(lines[0].seq - 1, lost)] if lost else []
        if lines:
            self._seq = lines[-1].seq
        return frames + [_frame(line) for line in lines if self._wanted(line)]


def _frame(line: LogLine) -> Frame:
    return Frame("log", line.seq, msgspec.json.encode(line))
