"""The log: one line an event on stdout, `<time> <level> [tag] text`, written by a thread of its own (OBS-042).

Tandem's own messages begin with their tag; a message of another library gets its logger's name for one. Exceptions are
logged by their frames and types; their messages, which may quote a request, only under `--log-content` (API-207). That
holds for exceptions among a message's arguments too: who knows a text to be harmless logs `str(error)`.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue
from types import MappingProxyType
from typing import Any, TextIO

from tandem.store.outcome import Outcome

__all__ = ["LineFormatter", "LogBook", "LogLine", "request_line", "setup_logging"]

QUEUED_LINES = 10_000
CHAIN = 20
"""How many exceptions of a chain, and members of a group, a traceback shows."""

QUIET = MappingProxyType(
    {
        "hypercorn.access": logging.CRITICAL + 1,  # [req] is the line of a request
        "hypercorn.error": logging.WARNING,  # the service announces itself
        "aiosqlite": logging.WARNING,  # its debug lines hold rows
        "asyncio": logging.WARNING,
        "trio-asyncio": logging.WARNING,
        "huggingface_hub": logging.WARNING,
        "httpx": logging.WARNING,
        "httpcore": logging.WARNING,
        "httpx2": logging.WARNING,  # their lines hold addresses
        "httpcore2": logging.WARNING,
        "PIL": logging.WARNING,
        "urllib3": logging.WARNING,
        "filelock": logging.WARNING,
    }
)


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

    def after(self, seq: int, most: int) -> tuple[list[LogLine], int]:
        """The lines behind `seq`, oldest first, `most` at most, and how many between were lost."""
        return [], 0

    @property
    def newest(self) -> int:
        """The `seq` of the newest line; 0 before the first."""
        return 0


@contextmanager
def setup_logging(
    *, log_content: bool = False, level: int = logging.INFO, stream: TextIO | None = None
) -> Iterator[LogBook]:
    """Send what is logged inside the `with` block to `stream` (stdout by default); all of it is out at the end.

    Logging never waits for the stream: its thread writes, and lines that find `QUEUED_LINES` waiting are dropped and
    counted. The root logger gets its earlier handlers back afterwards.
    """
    lines: Queue[logging.LogRecord] = Queue(QUEUED_LINES)
    handler = _Enqueue(lines)
    handler.setFormatter(LineFormatter(log_content=log_content))
    listener = _Listener(lines, logging.StreamHandler(stream or sys.stdout))
    root = logging.getLogger()
    before = root.handlers[:], root.level
    quieted = {name: logging.getLogger(name).level for name in QUIET}
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, quiet in QUIET.items():
        logging.getLogger(name).setLevel(quiet)
    listener.start()
    try:
        yield LogBook()
    finally:
        root.handlers[:], root.level = before
        for name, level_before in quieted.items():
            logging.getLogger(name).setLevel(level_before)
        listener.stop()


def request_line(outcome: Outcome) -> str:
    """The text of the line that each request ends in (API-206): names as in the ledger, `-` for what is not known."""
    fields: dict[str, object] = {
        "client": outcome.client_kind,
        "status": outcome.status,
        "finish": outcome.finish_reason,
        "prompt_tokens": outcome.prompt_tokens,
        "cached_tokens": outcome.cached_tokens,
        "completion_tokens": outcome.completion_tokens,
        "reasoning_tokens": outcome.reasoning_tokens,
        "queue_ms": _rounded(outcome.queue_ms, 0),
        "prompt_ms": _rounded(outcome.prompt_ms, 0),
        "total_ms": _rounded(outcome.total_ms, 0),
        "decode_tps": _rounded(outcome.decode_tps, 1),
    }
    if outcome.error_type is not None:
        fields["error"] = outcome.error_type
    shown = (f"{name}={'-' if value is None else value}" for name, value in fields.items())
    return f"[req] {outcome.request_id} {' '.join(shown)}"


def _rounded(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


class LineFormatter(logging.Formatter):
    """A record as one line, with a traceback below it where there is an exception."""

    default_msec_format = "%s.%03d"

    def __init__(self, *, log_content: bool = False) -> None:
        super().__init__()
        self._log_content = log_content

    def format(self, record: logging.LogRecord) -> str:
        text = self._message(record).replace("\r", "\\r").replace("\n", "\\n")
        if not text.startswith("["):
            text = f"[{record.name.partition('.')[0]}] {text}"
        lines = [f"{self.formatTime(record)} {record.levelname} {text}"]
        if record.exc_info and record.exc_info[1] is not None:
            lines += self._traceback(record.exc_info[1])
        if record.stack_info:
            lines.append(record.stack_info)
        return "\n".join(lines)

    def _message(self, record: logging.LogRecord) -> str:
        message, args = str(record.msg), record.args
        if not self._log_content:
            if isinstance(record.msg, BaseException):
                message = type_name(record.msg)
            if isinstance(args, tuple):
                args = tuple(_without_text(arg) for arg in args)
            elif args:
                args = {name: _without_text(arg) for name, arg in args.items()}
        return message % args if args else message

    def _traceback(self, error: BaseException) -> list[str]:
        lines = traceback.format_exception(error) if self._log_content else quiet_traceback(error)
        return "".join(lines).rstrip("\n").split("\n")


def _without_text(arg: Any) -> Any:
    return type_name(arg) if isinstance(arg, BaseException) else arg


def type_name(error: BaseException) -> str:
    """The exception's type as a traceback names it."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def quiet_traceback(error: BaseException) -> Iterator[str]:
    """The lines of a traceback without a single exception's message: frames and types of the exception, of what led to
    it, first things first, and of the members of a group."""
    chain = [error]
    while (earlier := _led_to(chain[-1])) is not None and earlier not in chain and len(chain) < CHAIN:
        chain.append(earlier)
    for link in reversed(chain):
        if link is not chain[-1]:
            yield "which led to\n"
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(link.__traceback__)
        yield type_name(link) + "\n"
        if isinstance(link, BaseExceptionGroup):
            for number, member in enumerate(link.exceptions[:CHAIN], 1):
                yield f"  member {number} of {len(link.exceptions)}\n"
                for line in quiet_traceback(member):
                    yield "".join("    " + part for part in line.splitlines(keepends=True))


def _led_to(error: BaseException) -> BaseException | None:
    return error.__cause__ if error.__suppress_context__ or error.__cause__ else error.__context__


class _Enqueue(QueueHandler):
    """Formats where the event happens and hands the finished line over; a full queue loses it, and later says so."""

    queue: Queue[logging.LogRecord]

    def __init__(self, lines: Queue[logging.LogRecord]) -> None:
        super().__init__(lines)
        self._lost = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        if self._lost:
            record.msg = f"{record.msg}\n... {self._lost} lines before this one were lost: stdout is not read"
        try:
            self.queue.put_nowait(record)
            self._lost = 0
        except Full:
            self._lost += 1


class _Listener(QueueListener):
    queue: Queue[Any]

    def enqueue_sentinel(self) -> None:
        """Waits for room, where the original would raise."""
        self.queue.put(None)
