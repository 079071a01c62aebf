"""The newest lines of the log in memory, for the log views (OBS-046): what was logged, and what others have printed.

A `LogBook` has one writer at a time, whatever its thread: all of it goes through the log's one handler, which logging
itself keeps to one thread. The event loop reads it, without a lock: the writer only ever appends.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

__all__ = ["LINES_KEPT", "LogBook", "LogLine", "PrintedLines", "Tee"]

LINES_KEPT = 5_000
LONGEST = 8_192
"""Characters of a line that are kept: of a longer one its beginning and, as the cause of a traceback stands there, its
end."""
HEAD = 2_048
REQUEST_ID = re.compile(r"\b(?:chatcmpl|cmpl)-[0-9a-f]{24}\b")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""Colours and cursor moves."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log, as the log views show it (OBS-046)."""

    seq: int
    ts: float
    """Seconds since 1970."""
    level: str
    source: str
    """The tag, or `stdout` or `stderr` for what was printed."""
    msg: str
    request_id: str | None


class LogBook:
    """The newest lines of the log. Written where a line is logged, in whatever thread; read on the event loop."""

    def __init__(self, size: int = LINES_KEPT) -> None:
        self._lines: deque[LogLine] = deque(maxlen=size)
        self._newest = 0

    def note(self, ts: float, level: str, source: str, msg: str, request_id: str | None = None) -> None:
        """One more line. An id of a request that stands in its text is found."""
        if request_id is None and (found := REQUEST_ID.search(msg)):
            request_id = found[0]
        seq = self._newest + 1
        self._lines.append(LogLine(seq, round(ts, 3), level, source, _clipped(msg), request_id))
        self._newest = seq  # last, so that a reader never counts on a line that is not there yet

    def after(self, seq: int, most: int) -> tuple[list[LogLine], int]:
        """The lines behind `seq`, oldest first, `most` at most, and how many between were lost."""
        if seq >= self._newest:
            return [], 0
        held = list(self._lines)  # in one step of the interpreter
        lost = max(held[0].seq - seq - 1, 0)
        start = max(seq + 1 - held[0].seq, 0)
        return held[start : start + most], lost

    @property
    def newest(self) -> int:
        """The `seq` of the newest line; 0 before the first."""
        return self._newest


def _clipped(msg: str) -> str:
    if len(msg) <= LONGEST:
        return msg
    return f"{msg[:HEAD]}\n… {len(msg) - LONGEST} characters left out …\n{msg[HEAD - LONGEST :]}"


class PrintedLines:
    """Makes lines of the pieces in which something is printed. Blank lines are none."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        """The lines that `text` has ended."""
        *whole, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > LONGEST:  # somebody prints without ever ending a line
            whole.append(self._rest)
            self._rest = ""
        return [line for each in whole if (line := _as_seen(each))]


def _as_seen(line: str) -> str:
    """As it stands on a terminal: after the last carriage return, without colours."""
    return ESCAPES.sub("", line).rstrip().rpartition("\r")[2].rstrip()


class Tee:
    """In place of `sys.stdout` or `sys.stderr`: passes everything on, and shows what is written to `seen`."""

    def __init__(self, stream: TextIO, seen: Callable[[str], None]) -> None:
        self._stream = stream
        self._seen = seen

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        self._seen(text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
