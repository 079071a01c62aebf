"""The log: one line an event on stdout, `<time> <level> [tag] text`, written by a thread of its own (OBS-042).

Tandem's own messages begin with their tag; a message of another library gets its logger's name for one. Exceptions are
logged by their frames and types; their messages, which may quote a request, only under `--log-content` (API-207). That
holds for exceptions among a message's arguments too: who knows a text to be harmless logs `str(error)`.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue
from types import MappingProxyType
from typing import Any, TextIO, cast

from tandem.logbook import LogBook, LogLine, PrintedLines, Tee
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


@contextmanager
def setup_logging(
    *, log_content: bool = False, level: int = logging.INFO, stream: TextIO | None = None
) -> Iterator[LogBook]:
    """Send what is logged inside the `with` block to `stream` (stdout by default); all of it is out at the end.

    Logging never waits for the stream: its thread writes, and lines that find `QUEUED_LINES` waiting are dropped and
    counted. The book that it yields has the newest lines, also of what is printed meanwhile, which still comes out as
    it would. The root logger gets its earlier handlers back afterwards.
    """
    book = LogBook()
    lines: Queue[logging.LogRecord] = Queue(QUEUED_LINES)
    handler = _Enqueue(lines, book)
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
        with _noting_prints(handler):
            yield book
    finally:
        root.handlers[:], root.level = before
        for name, level_before in quieted.items():
            logging.getLogger(name).setLevel(level_before)
        listener.stop()


@contextmanager
def _noting_prints(handler: _Enqueue) -> Iterator[None]:
    """What anybody prints inside the block is in the book too. The log's own stream is older and is not looked at."""
    before = sys.stdout, sys.stderr
    tees = [Tee(sys.stdout, partial(handler.printed, "stdout")), Tee(sys.stderr, partial(handler.printed, "stderr"))]
    sys.stdout, sys.stderr = (cast(TextIO, tee) for tee in tees)
    try:
        yield
    finally:
        handler.end_prints()
        sys.stdout, sys.stderr = before


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
    if outcome.lane is not None:
        fields |= {
            "lane": outcome.lane,
            "wait_ms": _rounded(outcome.queue_ms, 0),
            "lent_ms": _rounded(outcome.lent_ms, 0),
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


PRINTED = MappingProxyType({"stdout": "INFO", "stderr": "WARNING"})
"""The level that a printed line is shown with."""


class _Enqueue(QueueHandler):
    """Formats where the event happens, notes the finished line in the book and hands it over.

    A full queue loses it for the stream, and later says so. Logging runs `emit` in one thread at a time; `printed` does
    so by the same means.
    """

    queue: Queue[logging.LogRecord]

    def __init__(self, lines: Queue[logging.LogRecord], book: LogBook) -> None:
        super().__init__(lines)
        self._book = book
        self._lost = 0
        self._prints = {source: PrintedLines() for source in PRINTED}

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        prepared: logging.LogRecord = super().prepare(record)
        tag, text = _split_tag(prepared.message.split(" ", 3)[3])  # behind date, time and level
        self._book.note(record.created, record.levelname, tag, text, getattr(record, "request_id", None))
        return prepared

    def printed(self, source: str, text: str) -> None:
        """Somebody has written `text` to stdout or stderr."""
        self.acquire()
        try:
            self._note_prints(source, self._prints[source].feed(text))
        finally:
            self.release()

    def end_prints(self) -> None:
        """Note what was printed without an end of line."""
        for source in PRINTED:
            self.printed(source, "\n")

    def _note_prints(self, source: str, lines: list[str]) -> None:
        for line in lines:
            self._book.note(time.time(), PRINTED[source], source, line)

    def enqueue(self, record: logging.LogRecord) -> None:
        if self._lost:
            record.msg = f"{record.msg}\n... {self._lost} lines before this one were lost: stdout is not read"
        try:
            self.queue.put_nowait(record)
            self._lost = 0
        except Full:
            self._lost += 1


def _split_tag(text: str) -> tuple[str, str]:
    """`tag` and `text` of `[tag] text`."""
    tag, closed, rest = text.partition("]")
    return (tag[1:], rest.removeprefix(" ")) if closed else ("", text)


class _Listener(QueueListener):
    queue: Queue[Any]

    def enqueue_sentinel(self) -> None:
        """Waits for room, where the original would raise."""
        self.queue.put(None)
