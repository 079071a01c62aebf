"""The life of one completion request, chat or text: body, prompt, queue, answer, row. The request's task runs it.

Every step before the queue needs no engine, so its 400 is immediate while the engine is busy (API-027).
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, assert_never

from quart import Response, request

from tandem.actors.outbox import Outbox
from tandem.conductor.sessions import session_key
from tandem.engine.decoding.generation import Generation
from tandem.engine.errors import BadInput
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import Delta, Finish
from tandem.engine.text.reading.reader import PlainReader
from tandem.http.body import read_body
from tandem.http.context import Context, context, new_id
from tandem.http.edge import at_exit
from tandem.http.exchange import End, Event, Exchange, Limits, Output, Prefilling, Silence, Waiting
from tandem.http.openai import comments, errors
from tandem.http.openai.answers import Answer
from tandem.http.openai.chunks import Stream
from tandem.http.openai.decode import decode_body
from tandem.http.openai.errors import ApiError
from tandem.http.openai.fields import shown_fields
from tandem.http.openai.logprobs import TokenNames
from tandem.http.openai.requests import Request, resolve_limit
from tandem.http.record import RequestRecord
from tandem.http.responses import json_response, refusal, stream_response

__all__ = ["Endpoint", "Head", "answer"]

log = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=Request)
T = TypeVar("T")

LONG_PROMPT_BYTES = 8_000
"""Above this, rendering and tokenising may take over 5 ms and goes to a worker thread (SCH-113)."""
LONG_BODY_BYTES = 1_000_000
"""Above this, so does decoding the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What every chunk or body of one response repeats, and how its counts are wanted."""

    id: str
    created: int
    include_usage: bool | None
    usage_default: bool
    names: TokenNames | None
    """Shows tokens where log-probabilities were asked for."""


class Endpoint(Protocol[RequestT]):
    """What chat and text completions do differently."""

    name: ClassVar[str]
    id_prefix: ClassVar[str]
    prompt_field: ClassVar[str]

    def parse(self, body: Mapping[str, Any], context: Context) -> RequestT:
        """Raises `ApiError` naming the field at fault."""

    def prompt(self, request: RequestT, context: Context, first_date: datetime.date) -> Prompt:
        """Raises `BadInput` naming the field at fault. `first_date` is that of the session's first request."""

    def session_ids(self, request: RequestT) -> tuple[str | None, ...]:
        """The session ids in the body, best first."""

    def stream(self, head: Head) -> Stream:
        """The encoder of a streamed answer."""

    def body(self, head: Head, answers: Sequence[Answer]) -> bytes:
        """The JSON answer of these choices. Raises `ApiError` 500 when one of them has failed."""

    def messages(self, request: RequestT) -> tuple[Mapping[str, Any], ...]:
        """The conversation, for telling the client's kind; empty for text completions."""


async def answer(endpoint: Endpoint[RequestT]) -> Response:
    """Answer the present request; whatever becomes of it, its row is written and its id is in the headers."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    record = RequestRecord(context(), new_id(endpoint.id_prefix), endpoint.name, headers)

    async def close() -> None:
        record.close()

    at_exit(close)
    answer_headers = {"X-Request-Id": record.request_id, "X-Tandem": "raw"}
    try:
        return await _Handling(context(), endpoint, record, answer_headers).answer()
    except ApiError as refused:
        error = refused
    except Exception:
        log.exception("[http] request %s failed", record.request_id)
        error = errors.internal()
    record.failed(error)
    return refusal(error, answer_headers)


class _Handling(Generic[RequestT]):
    """The steps of one request, in order."""

    def __init__(
        self, context: Context, endpoint: Endpoint[RequestT], record: RequestRecord, headers: Mapping[str, str]
    ) -> None:
        self._context = context
        self._endpoint = endpoint
        self._record = record
        self._headers = headers

    async def answer(self) -> Response:
        asked, size = await self._read()
        self._note(asked)
        prompt = await self._prompt(asked, size)
        settings, card = self._context.settings, self._context.card
        limit = resolve_limit(
            asked.limit,
            settings.default_max_tokens,
            prompt.client_tokens,
            card.max_len,
            self._endpoint.prompt_field,
        )
        self._record.limit = limit
        exchange = self._exchange(asked, prompt, limit)
        answering = _Answering(self._endpoint, exchange, self._record, self._head(asked), asked.n)
        at_exit(answering.aclose)
        if not asked.stream:
            return json_response(await answering.whole(), self._headers)
        first = await answering.advance()
        return stream_response(answering.pieces(first), self._headers)

    async def _read(self) -> tuple[RequestT, int]:
        """The body, parsed, and its size. Its bytes count as in flight until then (API-004)."""
        with self._context.bodies.hold() as hold:
            raw = await read_body(hold, self._context.settings.max_body_mb * 1024 * 1024)
            body = await self._run_if_long(len(raw) > LONG_BODY_BYTES, "body", decode_body, raw)
        if self._context.settings.log_request_keys:
            log.info("[http] %s %s", self._record.request_id, shown_fields(body))
        return self._endpoint.parse(body, self._context), len(raw)

    def _note(self, asked: RequestT) -> None:
        record = self._record
        record.stream, record.model, record.choices = asked.stream, asked.model, asked.n
        record.messages = self._endpoint.messages(asked)

    async def _prompt(self, asked: RequestT, size: int) -> Prompt:
        context, endpoint = self._context, self._endpoint
        key = session_key(self._record.headers, endpoint.session_ids(asked), endpoint.messages(asked))
        session = context.sessions.open(key, context.wall.now().date())
        try:
            return await self._run_if_long(
                size > LONG_PROMPT_BYTES, "prompt", endpoint.prompt, asked, context, session.first_date
            )
        except BadInput as error:
            raise errors.from_bad_input(error) from error

    async def _run_if_long(self, is_long: bool, purpose: str, work: Callable[..., T], *args: object) -> T:
        return await self._context.blocking.run(purpose, work, *args) if is_long else work(*args)

    def _exchange(self, asked: RequestT, prompt: Prompt, limit: int) -> Exchange:
        context, settings = self._context, self._context.settings
        first = Generation(
            prompt,
            asked.rules,
            limit=limit,
            reader=PlainReader(context.text, asked.stops),
            end_ids=context.text.end_ids,
            grid=context.card.anchor_grid,
            arrived_at=self._record.arrived_at,
        )
        others = [first.for_choice(index, PlainReader(context.text, asked.stops)) for index in range(1, asked.n)]
        return Exchange(
            self._record.request_id,
            (first, *others),
            queue=context.queue,
            outbox=Outbox(stall_s=settings.client_stall_s),
            limits=Limits(
                queue_timeout=settings.queue_timeout,
                request_timeout=settings.request_timeout,
                prefill_heartbeat=settings.prefill_heartbeat_s,
            ),
            stream=asked.stream,
            arrived_at=self._record.arrived_at,
        )

    def _head(self, asked: RequestT) -> Head:
        return Head(
            id=self._record.request_id,
            created=int(self._context.wall.now().timestamp()),
            include_usage=asked.include_usage,
            usage_default=self._context.settings.usage_default,
            names=self._context.text if asked.rules.logprobs is not None else None,
        )


class _Answering:
    """Turns the exchange's events into bytes, and leaves the exchange however the request ends."""

    def __init__(
        self, endpoint: Endpoint[Any], exchange: Exchange, record: RequestRecord, head: Head, choices: int
    ) -> None:
        self._endpoint = endpoint
        self._exchange = exchange
        self._record = record
        self._head = head
        self._answers = [Answer(index) for index in range(choices)]
        self._stream = endpoint.stream(head)
        self._ends = 0
        """Choices whose end has been noted."""
        self._is_open = False
        """Whether any byte of the stream has been given out."""
        self._has_started = False
        """Whether the stream's first event has."""

    async def whole(self) -> bytes:
        """The JSON body. Raises `ApiError` for a refusal or a failure."""
        while not isinstance(event := await self._exchange.next(), End):
            if isinstance(event, Output):
                self._note_ends(event)
                for batch in event.batches:
                    self._answers[batch.choice].feed(batch.deltas)
        if any(answer.finish is None for answer in self._answers):  # the slot has failed, or a choice before it
            raise errors.internal()
        return self._endpoint.body(self._head, self._answers)

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
            self._record.failed(error)
            return self._stream.fail(error)
        except Exception:
            log.exception("[http] request %s failed in its stream", self._record.request_id)
            self._record.failed(errors.internal())
            return self._stream.fail(errors.internal())

    def _encode(self, event: Event) -> bytes:
        match event:
            case Waiting(position, waited_s):
                return comments.waiting(position, waited_s)
            case Prefilling(done, total):
                return comments.prefill(done, total)
            case Silence():
                return comments.PING
            case Output():
                return self._encode_output(event)
            case End():  # without a `Finish`: the slot has failed
                raise errors.internal()
            case _:
                assert_never(event)

    def _encode_output(self, output: Output) -> bytes:
        self._note_ends(output)
        deltas = [delta for batch in output.batches for delta in batch.deltas]
        if not self._is_open and _is_error(deltas[0]):
            raise errors.internal()
        if self._has_started:
            return self._stream.feed(deltas)
        self._has_started = True
        return self._stream.open() + self._stream.feed(deltas)

    def _note_ends(self, output: Output) -> None:
        finishes = [delta for batch in output.batches for delta in batch.deltas if isinstance(delta, Finish)]
        self._ends += len(finishes)
        self._record.finished(finishes)
        if any(finish.reason == "error" for finish in finishes):
            self._record.failed(errors.internal())

    async def aclose(self) -> None:
        """Nothing of the request is left in queue or slot afterwards; what was written so far is noted."""
        finishes = await self._exchange.aclose()
        self._record.finished(finishes[self._ends :])
        self._record.slot = self._exchange.slot


def _is_error(delta: Delta) -> bool:
    return isinstance(delta, Finish) and delta.reason == "error"
