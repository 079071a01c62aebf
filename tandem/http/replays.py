"""Answers from memory: a request at temperature 0 that is like one before it gets that one's answer (ENG-120, API-162).

The batches of the first answer are kept as its slot handed them out, so another answer of them has the same chunks.
What the client says of it are the directives of HTTP: a request with `Cache-Control: no-cache`, or one that asks for
another answer (`X-Tandem-Regenerate`), is computed; with `no-store` it is, and its answer is not kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from tandem.actors.outbox import Deltas, weight
from tandem.config import Settings
from tandem.engine.caches.response import ResponseCache, ResponseKey, response_key
from tandem.engine.decoding.tally import Progress
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import Content, Finish, Timings, Usage
from tandem.http import facts
from tandem.http.events import Course, End, Event, Output

if TYPE_CHECKING:
    from tandem.http.answering import Source
    from tandem.http.context import Context
    from tandem.http.endpoint import Asked
    from tandem.http.monitoring import Monitoring
    from tandem.http.record import RequestRecord

__all__ = ["Replay", "open_responses", "refused", "with_memory"]

Batches: TypeAlias = tuple[Deltas, ...]

WHOLE = ("stop", "length", "tool_calls")
"""Ends that the request itself decides; the others say what happened to it."""
IN_THE_IDS = ("messages", "images", "prompt", "template_kwargs", "template_defaults")
LOOKED_AT = ("n", "limit", "rules", "constraint")
NO_MATTER = {*IN_THE_IDS, *LOOKED_AT, "model", "include_usage", "conversation_id", "session_id", "sampled"}
"""Fields of a request that its key leaves out. A new field is in it until somebody says otherwise."""


def open_responses(settings: Settings) -> ResponseCache[Batches] | None:
    """The cache of this service; None where it is off."""
    if not settings.response_cache:
        return None
    return ResponseCache(settings.response_cache_mb << 20, settings.response_cache_ttl)


async def with_memory(context: Context, exchange: Source, asked: Asked[Any], record: RequestRecord) -> Source:
    """Where the answer comes from: memory, where it is there, or the exchange, whose answer may be kept."""
    cache = context.responses
    if cache is None or "no-store" in (directives := _directives(record.headers)):
        return exchange
    key = _key(asked, record, context.card.name)
    if key is None:
        return exchange
    if "no-cache" not in directives:
        kept = cache.get(key, trio.current_time())
        if kept is not None and await _takes_work(context):
            return Replay(kept, record.arrived_at)
    return _Keeping(exchange, cache, key, record)


def _directives(headers: Mapping[str, str]) -> frozenset[str]:
    said = frozenset(each.strip().lower() for each in headers.get("cache-control", "").split(","))
    return said | {"no-cache"} if headers.get("x-tandem-regenerate", "").strip() == "1" else said


def _key(asked: Asked[Any], record: RequestRecord, model: str) -> ResponseKey | None:
    """Of all that shapes the deltas of an answer; None of a request whose answer is drawn or one of several."""
    request, prompt = asked.request, asked.prompt
    if request.n > 1 or any(span.kind == "note" for span in prompt.spans):  # NOTE-004
        return None
    fields = (field.name for field in dataclasses.fields(request) if field.name not in NO_MATTER)
    shape: dict[str, object] = {name: repr(getattr(request, name)) for name in fields}
    shape |= {
        "endpoint": record.endpoint,
        "kind": asked.kind,
        "limit": asked.limit,
        "thinking": prompt.thinking,
        "client_tokens": prompt.client_tokens,
        "plan": (asked.effects.under_plan, asked.effects.secret_mask),
    }
    constraint = None if request.constraint is None else repr(request.constraint)
    return response_key(prompt.keys, request.rules, model, limits=shape, constraint=constraint)


async def _takes_work(context: Context) -> bool:
    """Not while it drains: the queue says so to whoever comes (API-204)."""
    sight = await facts.look(context)
    return facts.status_of(context, sight) == "ok"


class Replay:
    """An answer that was given before, batch by batch, with the counts of API-162."""

    choice = 0

    def __init__(self, batches: Batches, arrived_at: float) -> None:
        *before, last = batches
        *deltas, finish = last.deltas
        assert isinstance(finish, Finish)
        self._finish = _from_memory(finish, 1e3 * (trio.current_time() - arrived_at))
        self._left = [*before, Deltas(last.choice, [*deltas, self._finish])]
        self._left.reverse()
        self.course = Course()

    @property
    def is_over(self) -> bool:
        return not self._left

    @property
    def progress(self) -> Progress:
        """Nothing is worked on: the prompt is read and the answer written."""
        usage, now = self._finish.usage, trio.current_time()
        return Progress(
            rows=usage.engine_cached,
            read=usage.engine_cached,
            resumed=usage.engine_cached,
            cache_source="response",
            image=None,
            completion=usage.completion,
            reasoning=usage.reasoning,
            in_reasoning=False,
            in_call=False,
            rounds=0,
            drafted=0,
            draft_accepted=0,
            started_at=now,
            first_at=now,
            last_at=now,
        )

    @property
    def whole(self) -> Output:
        """All of it at once."""
        return Output(self._left[::-1])

    async def next(self) -> Event:
        await trio.lowlevel.checkpoint()
        return Output([self._left.pop()]) if self._left else End()

    async def aclose(self) -> tuple[Finish, ...]:
        await trio.lowlevel.checkpoint()
        return ()


def refused(monitoring: Monitoring | None, prompt: Prompt, arrived_at: float) -> Replay | None:
    """What the monitor has said in place of an answer, without the engine (MON-116)."""
    if monitoring is None or not (sentence := monitoring.refusal):
        return None
    usage = Usage(prompt=prompt.client_tokens, hidden=prompt.hidden_tokens, engine_prompt=len(prompt.ids))
    finish = Finish("stop", usage, Timings(), monitoring.refusal_detail)
    return Replay((Deltas(0, [Content(sentence), finish]),), arrived_at)


def _from_memory(finish: Finish, waited_ms: float) -> Finish:
    usage = dataclasses.replace(
        finish.usage,
        cached=finish.usage.prompt,
        engine_cached=finish.usage.engine_cached + finish.usage.engine_prompt,
        engine_prompt=0,
    )
    timings = Timings(queue_ms=waited_ms, total_ms=waited_ms, cache_source="response")
    return dataclasses.replace(finish, usage=usage, timings=timings)


class _Keeping:
    """An exchange whose answer is kept once it is whole."""

    def __init__(
        self, exchange: Source, cache: ResponseCache[Batches], key: ResponseKey, record: RequestRecord
    ) -> None:
        """What the monitor has acted on, as `record` says, is not kept (MON-135)."""
        self._exchange = exchange
        self._record = record
        self._cache = cache
        self._key = key
        self._batches: list[Deltas] = []

    @property
    def is_over(self) -> bool:
        return self._exchange.is_over

    @property
    def course(self) -> Course:
        return self._exchange.course

    @property
    def choice(self) -> int:
        return self._exchange.choice

    @property
    def progress(self) -> Progress:
        return self._exchange.progress

    async def next(self) -> Event:
        event = await self._exchange.next()
        if isinstance(event, Output):
            self._batches += event.batches
            self._keep_whole(event.batches[-1].deltas)
        return event

    def _keep_whole(self, last: Sequence[Any]) -> None:
        match last[-1]:
            case Finish(reason, usage) if reason in WHOLE and not usage.replayed and not self._acted():
                size = sum(weight(batch) for batch in self._batches)
                self._cache.put(self._key, tuple(self._batches), size, trio.current_time())
            case _:
                pass

    def _acted(self) -> bool:
        if self._record.monitoring is not None:
            self._record.monitoring.settle()
        return bool(self._record.acts)

    async def aclose(self) -> tuple[Finish, ...]:
        return await self._exchange.aclose()
