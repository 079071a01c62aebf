"""The life of one completion request, chat or text: body, prompt, queue, answer, row. The request's task runs it.

Every step before the queue needs no engine, so its 400 is immediate while the engine is busy (API-027).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from quart import Response, request

from tandem.actors.outbox import Outbox
from tandem.engine.decoding.generation import Generation
from tandem.engine.errors import BadInput
from tandem.engine.grammar.masks import BranchMask
from tandem.engine.text.images import NO_IMAGES, LoadedImages
from tandem.engine.verbs import Mask
from tandem.http.ahead import Ahead
from tandem.http.answering import Answering, Source
from tandem.http.asking import Asking
from tandem.http.body import read_body
from tandem.http.choices import generations
from tandem.http.context import Context, context, new_id
from tandem.http.edge import at_exit
from tandem.http.endpoint import Asked, Endpoint, Head
from tandem.http.entry import Entry, entry_of, limits_of, with_question
from tandem.http.events import Output
from tandem.http.exchange import Exchange
from tandem.http.journaling import Witness, journal_end, journal_plan, log_plan
from tandem.http.lining import cleaned, lined
from tandem.http.misses import tell_miss
from tandem.http.monitoring import Monitoring
from tandem.http.openai import errors
from tandem.http.openai.decode import decode_body
from tandem.http.openai.errors import ApiError
from tandem.http.openai.fields import shown_fields
from tandem.http.openai.headers import check_headers
from tandem.http.openai.requests import Request
from tandem.http.planned import Inside, Planned, applied
from tandem.http.planning import LONG_BODY_BYTES, LONG_PROMPT_BYTES, Planning
from tandem.http.record import RequestRecord
from tandem.http.replays import refused, with_memory
from tandem.http.responses import json_response, refusal, stream_response

__all__ = ["answer"]

log = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=Request)
T = TypeVar("T")


async def answer(endpoint: Endpoint[RequestT]) -> Response:
    """Answer the present request; whatever becomes of it, its row is written and its id is in the headers."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    here = context()
    record = RequestRecord(here, new_id(endpoint.id_prefix), endpoint.name, headers)
    handling = _Handling(here, endpoint, record)

    async def close() -> None:
        if record.monitoring is not None:
            record.monitoring.end(None)
        record.close()
        handling.close()
        await tell_miss(here, record)

    at_exit(close)
    try:
        return await handling.answer()
    except ApiError as refused:
        error = refused
    except Exception:
        log.exception("[http] request %s failed", record.request_id)
        error = errors.internal()
    record.failed(error)
    return refusal(error, _answer_headers(record))


def _answer_headers(record: RequestRecord) -> dict[str, str]:
    """Of every answer, refusals among them."""
    headers = {"X-Request-Id": record.request_id, "X-Tandem": record.mode}
    if record.profile is not None:
        headers["X-Tandem-Profile"] = record.profile
    if record.images_left_out:
        headers["X-Tandem-Images-Left-Out"] = str(record.images_left_out)
    return headers


class _Handling(Generic[RequestT]):
    """The steps of one request, in order."""

    def __init__(self, context: Context, endpoint: Endpoint[RequestT], record: RequestRecord) -> None:
        self._context = context
        self._endpoint = endpoint
        self._record = record
        self._planned: Planned | None = None
        self._planning: Planning[RequestT] | None = None
        """There where the plan waits for a question that is asked under the grant."""
        self._masks: list[Mask | None] = []

    async def answer(self) -> Response:
        check_headers(self._record.headers)
        asked = await self._prepare()
        self._masks = await self._compiled(asked)
        exchange = await self._source(asked)
        self._record.exchange = exchange
        encoders = self._endpoint.encoders(asked, self._context)
        answering = Answering(encoders, exchange, self._record, asked.request.n)

        async def leave() -> None:
            await answering.aclose()
            self._log_branches()

        at_exit(leave)
        if not asked.request.stream:
            return json_response(await answering.whole(), _answer_headers(self._record))
        first = await answering.advance()
        return stream_response(answering.pieces(first), _answer_headers(self._record))

    async def _prepare(self) -> Asked[RequestT]:
        """Everything that is found out before the queue. Raises `ApiError`."""
        request, size = await self._read()
        record = self._record
        record.stream, record.model, record.choices = request.stream, request.model, request.n
        record.tell_kind(self._endpoint.messages(request), has_tools=self._endpoint.has_tools(request))
        planning = Planning(self._context, self._endpoint, record, request, size, await self._images(request))
        self._planned = planned = await planning.planned()
        if planned.inside is None:
            self._tell(planned)
        else:
            self._planning = planning
        return self._asked(request, planned)

    def _asked(self, request: RequestT, planned: Planned) -> Asked[RequestT]:
        record, ngram = self._record, self._context.settings.no_repeat_ngram
        request = applied(request, planned.effects, ngram=ngram)
        record.limit, record.prompt, record.rules = planned.limit, planned.prompt, request.rules
        asked = Asked(
            request=request,
            kind=record.kind,
            prompt=planned.prompt,
            limit=planned.limit,
            head=self._head(request),
            effects=planned.effects,
            mask=planned.mask,
            watch=None if planned.monitoring is None else planned.monitoring.watch,
        )
        return lined(asked, planned, self._context.settings, record)

    def _tell(self, planned: Planned) -> None:
        """Journal and log say what was decided before anything waits."""
        self._planned = planned
        self._record.witness = Witness.of(self._context, planned)
        self._record.monitoring = planned.monitoring
        self._record.sampling = planned.effects.sampling.why
        self._context.sampling.add(planned.effects.sampling)
        log_plan(self._record, planned)
        journal_plan(self._context, self._record, planned)

    def close(self) -> None:
        """The request is over; its rows learn how it ended."""
        if self._planned is not None and self._planned.inside is not None and self._planning is not None:
            self._planned = self._planning.not_run()
            log_plan(self._record, self._planned)
            journal_plan(self._context, self._record, self._planned)
        if self._planned is not None:
            journal_end(self._context, self._record, self._planned)

    async def _read(self) -> tuple[RequestT, int]:
        """The body, parsed, and its size. Its bytes count as in flight until then (API-004)."""
        with self._context.bodies.hold() as hold:
            raw = await read_body(hold, self._context.settings.max_body_mb * 1024 * 1024)
            body = await self._run_if_long(len(raw) > LONG_BODY_BYTES, "body", decode_body, raw)
        if self._context.settings.log_request_keys:
            log.info("[http] %s %s", self._record.request_id, shown_fields(body))
        request = self._endpoint.parse(body, self._context)
        if self._context.documents is not None:
            is_long = len(raw) > LONG_PROMPT_BYTES
            request, self._record.states_stripped = await self._run_if_long(is_long, "body", cleaned, request)
        return request, len(raw)

    async def _images(self, request: RequestT) -> LoadedImages:
        """The images, fetched and decoded. Their bytes count as in flight until then (API-004)."""
        refs, loader = self._endpoint.images(request), self._context.images
        if not refs:
            return NO_IMAGES
        assert loader is not None
        with self._context.bodies.hold() as hold:
            images = await loader.load(refs, len(self._endpoint.messages(request)), hold.grow)
        if images.left_out:
            self._record.images_left_out = images.left_out
            log.info("[images] %s left_out=%d of=%d", self._record.request_id, images.left_out, len(refs))
        return images

    async def _run_if_long(self, is_long: bool, purpose: str, work: Callable[..., T], *args: object) -> T:
        return await self._context.blocking.run(purpose, work, *args) if is_long else work(*args)

    async def _compiled(self, asked: Asked[RequestT]) -> list[Mask | None]:
        """One for each choice. A grammar is compiled in a worker thread, whatever its size (API-128)."""
        constraint, count = asked.request.constraint, asked.request.n
        if constraint is None:
            return [None] * count
        try:
            compiled = await self._context.blocking.run("grammar", self._context.grammars.compile, constraint)
        except BadInput as error:
            raise errors.from_bad_input(error) from error
        return [compiled.mask(asked.prompt.thinking) for _ in range(count)]

    async def _source(self, asked: Asked[RequestT]) -> Source:
        """Where the answer comes from. What is decided under the grant is no answer from memory."""
        if (said := refused(self._monitoring, asked.prompt, self._record.arrived_at)) is not None:
            return said
        planned = self._planned
        if planned is None or planned.inside is None:
            exchange = self._exchange(asked, self._generations(asked), self._entry(asked))
            return await with_memory(self._context, exchange, asked, self._record)
        entry = with_question(self._entry(asked), planned.inside.asked.prompt)
        return self._exchange(asked, (), entry, self._ahead(planned.inside, asked.request))

    def _exchange(
        self, asked: Asked[RequestT], generations: tuple[Generation, ...], entry: Entry, ahead: Ahead | None = None
    ) -> Exchange:
        context, settings, lining = self._context, self._context.settings, self._record.lining
        self._record.wait_s = entry.wait_s
        return Exchange(
            self._record.request_id,
            generations,
            queue=context.queue,
            outbox=Outbox(stall_s=settings.client_stall_s),
            entry=entry,
            limits=limits_of(settings, looks=lining is not None and lining.looks),
            stream=asked.request.stream,
            arrived_at=self._record.arrived_at,
            ahead=ahead,
        )

    def _ahead(self, inside: Inside, request: RequestT) -> Ahead:
        """The question inside the conversation, and the request as it is planned once that is answered (RTR-019)."""
        asking = Asking(self._context, inside.question, inside.asked, alone=False)

        async def then() -> tuple[Generation, ...] | Output:
            assert self._planning is not None
            answer = asking.answer()
            self._context.metrics.asked(inside.question.id, failed=answer.error is not None)
            planned = await self._planning.decided(inside, answer)
            self._tell(planned)
            asked = self._asked(request, planned)
            if (said := refused(self._monitoring, asked.prompt, self._record.arrived_at)) is not None:
                return said.whole
            self._masks = await self._compiled(asked)
            return self._generations(asked)

        return Ahead(asking.generation, then, inside.asked.prompt.asked_at)

    def _generations(self, asked: Asked[RequestT]) -> tuple[Generation, ...]:
        return generations(self._context, self._endpoint, self._record, asked, self._masks, self._monitoring)

    def _entry(self, asked: Asked[RequestT]) -> Entry:
        request, endpoint = asked.request, self._endpoint
        return entry_of(
            asked.prompt,
            self._context.settings,
            limit=asked.limit,
            choices=request.n,
            stream=request.stream,
            messages=endpoint.messages(request),
            has_tools=endpoint.has_tools(request),
            is_side=self._planned.is_side if self._planned else None,
        )

    @property
    def _monitoring(self) -> Monitoring | None:
        return None if self._planned is None else self._planned.monitoring

    def _head(self, request: RequestT) -> Head:
        return Head(
            id=self._record.request_id,
            created=int(self._context.wall.now().timestamp()),
            include_usage=request.include_usage,
            usage_default=self._context.settings.usage_default,
            names=self._context.text if request.rules.logprobs is not None else None,
        )

    def _log_branches(self) -> None:
        """Which of the two an answer became that could be calls or a document (API-134)."""
        for mask in self._masks:
            if isinstance(mask, BranchMask) and mask.branch is not None:
                log.info("[structured] %s branch=%s", self._record.request_id, mask.branch)
