"""From the exchange's events to the bytes of one answer, whole or streamed; runs in the request's task."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol, assert_never

import trio

from tandem.actors.estimates import coarse
from tandem.conductor.monitor.events import MonitorEvent
from tandem.engine.decoding.tally import Progress
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart, Delta, Finish, Line
from tandem.http.events import Course, End, Event, Output, Prefilling, Silence, Waiting
from tandem.http.openai import comments, errors
from tandem.http.openai.answers import Answer
from tandem.http.openai.errors import ApiError
from tandem.http.openai.streams import Stream
from tandem.http.record import RequestRecord

__all__ = ["Answering", "Encoders", "Source"]

log = logging.getLogger(__name__)


class Encoders(Protocol):
    """How one response is written."""

    def stream(self) -> Stream:
        """The encoder of a streamed answer."""

    def body(self, answers: Sequence[Answer]) -> bytes:
        """The JSON answer of these choices. Raises `ApiError` 500 when one of them has failed."""


class Source(Protocol):
    """Where an answer comes from: the exchange with a slot, or memory."""

    @property
    def is_over(self) -> bool: ...

    @property
    def course(self) -> Course: ...

    @property
    def choice(self) -> int: ...

    @property
    def progress(self) -> Progress: ...

    async def next(self) -> Event: ...

    async def aclose(self) -> tuple[Finish, ...]: ...


class Answering:
    """Turns the exchange's events into bytes, and leaves the exchange however the request ends."""

    def __init__(self, encoders: Encoders, exchange: Source, record: RequestRecord, choices: int) -> None:
        self._encoders = encoders
        self._exchange = exchange
        self._record = record
        self._answers = [Answer(index) for index in range(choices)]
        self._stream = encoders.stream()
        self._ends = 0
        """Choices whose end has been noted."""
        self._is_open = False
        """Whether any byte of the stream has been given out."""
        self._has_started = False
        """Whether the stream's first event has."""
        self._has_token = False
        """Whether the first deltas have come."""

    async def whole(self) -> bytes:
        """The JSON body. Raises `ApiError` for a refusal or a failure."""
        while not isinstance(event := await self._exchange.next(), End):
            if isinstance(event, Output):
                self._answers[0].feed(self._pending())
                self._note(event)
                for batch in event.batches:
                    self._answers[batch.choice].feed(batch.deltas)
                self._answers[0].feed(self._pending())
        if any(answer.finish is None for answer in self._answers):  # the slot has failed, or a choice before it
            raise errors.internal()
        return self._encoders.body(self._answers)

    async def pieces(self, first: bytes) -> AsyncIterator[bytes]:  # noqa: ASYNC900  Quart streams nothing else
        """The stream's bytes, `first` among them. Holds nothing: `aclose` cleans up after it."""
        piece = first
        while piece:
            yield piece
            piece = await self._advance_open()

    async def advance(self) -> bytes:
        """The next bytes there are to send; empty at the end. Raises `ApiError` where nothing has gone out yet."""
        while not self._stream.ended:
            event = await self._exchange.next()
            data = self._encode(event)
            if data:
                self._is_open = True
                return data
        return b""

    async def _advance_open(self) -> bytes:
        """As `advance`, once the status is out: what fails now ends the stream by an error chunk (API-145)."""
        try:
            return await self.advance()
        except ApiError as error:
            return self._fail(error)
        except Exception:
            log.exception("[http] request %s failed in its stream", self._record.request_id)
            return self._fail(errors.internal())

    def _fail(self, error: ApiError) -> bytes:
        self._record.failed(error)
        return self._concluded() + self._stream.fail(error)

    def _encode(self, event: Event) -> bytes:
        """What the event says, behind the lines that are due."""
        if isinstance(event, Output):
            return self._encode_output(event)
        data, lining = self._comment(event), self._record.lining
        if lining is None:
            return data
        due = lining.look(event, trio.current_time())
        # A line alone opens no stream that may still be refused; once a chunk is read nobody refuses it.
        if due or data or isinstance(event, Prefilling):
            return self._chunks([*lining.pending(), *due]) + data
        return b""

    def _comment(self, event: Waiting | Prefilling | Silence | End) -> bytes:
        match event:
            case Waiting(is_due=False) | Prefilling(is_due=False):
                return b""
            case Waiting():
                left = None if event.estimate_s is None else coarse(event.estimate_s, event.reason == "own")
                return comments.waiting(event.position, event.waited_s, left, missing=event.missing)
            case Prefilling(done, total, image):
                return comments.prefill(done, total, image)
            case Silence():
                return comments.PING
            case End():  # without a `Finish`: the slot has failed
                raise errors.internal()
            case _:
                assert_never(event)

    def _encode_output(self, output: Output) -> bytes:
        self._note(output)
        deltas = [delta for batch in output.batches for delta in batch.deltas]
        if not self._is_open and _is_error(deltas[0]):
            raise errors.internal()
        if self._record.lining is None:
            return self._opened() + self._stream.feed(deltas)
        if not self._has_token:
            self._has_token = True
            before = self._chunks(self._pending()) + self._concluded()
            return before + self._opened() + self._stream.feed(deltas)
        body, end = (deltas[:-1], deltas[-1:]) if isinstance(deltas[-1], Finish) else (deltas, [])
        now = trio.current_time()
        after = [*self._pending(), *self._record.lining.thought(self._exchange.progress, now)]
        return self._stream.feed([*body, *after, *end])

    def _opened(self) -> bytes:
        """How the stream starts, once."""
        if self._has_started:
            return b""
        self._has_started = True
        return self._stream.open()

    def _chunks(self, lines: Sequence[Line]) -> bytes:
        data = self._stream.feed(lines)
        return self._opened() + data if data else b""

    def _pending(self) -> list[Line]:
        return [] if self._record.lining is None else self._record.lining.pending()

    def _concluded(self) -> bytes:
        lining = self._record.lining
        if lining is None:
            return b""
        return self._stream.conclude(lining.summary(self._exchange.progress, trio.current_time()))

    def _note(self, output: Output) -> None:
        """Ends and calls, for the row."""
        for batch in output.batches:
            if self._record.witness is not None and batch.choice == 0:
                self._record.witness.hear(batch.deltas)
            if self._record.monitoring is not None and batch.choice == 0:
                self._show(self._record.monitoring.hear(batch.deltas))
            finishes = _finishes(batch.deltas)
            self._ends += len(finishes)
            self._record.finished(finishes)
            for delta in batch.deltas:
                self._note_call(delta)
            if any(finish.reason == "error" for finish in finishes):
                self._record.failed(errors.internal())

    def _show(self, events: Iterable[MonitorEvent]) -> None:
        """Lines of what the monitor has done."""
        if self._record.lining is not None:
            for event in events:
                self._record.lining.acted(event)

    def _note_call(self, delta: Delta) -> None:
        match delta:
            case CallStart(_, _, name):
                self._record.tool, self._record.tool_bytes, self._record.tool_open = name, 0, True
            case CallArguments(_, text):
                self._record.tool_bytes += len(text.encode())
            case CallEnd():
                self._record.calls += 1
                self._record.tool_open = False
            case _:
                pass

    async def aclose(self) -> None:
        """Nothing of the request is left in queue or slot afterwards; what was written so far is noted."""
        if not self._exchange.is_over and not self._record.has_failed:
            self._record.client_gone_at = trio.current_time()
        finishes = await self._exchange.aclose()
        if self._record.monitoring is not None and finishes:
            self._record.monitoring.end(finishes[0])  # an answer that was left has its acts all the same
        self._record.finished(finishes[self._ends :])


def _finishes(deltas: Iterable[Delta]) -> list[Finish]:
    return [delta for delta in deltas if isinstance(delta, Finish)]


def _is_error(delta: Delta) -> bool:
    return isinstance(delta, Finish) and delta.reason == "error"
