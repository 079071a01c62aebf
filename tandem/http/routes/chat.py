"""POST /v1/chat/completions."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quart import Blueprint, Response

from tandem.engine.decoding.generation import ReasoningCap
from tandem.engine.decoding.seams import Reader
from tandem.engine.grammar.constraints import CallsOrDocument
from tandem.engine.text.closing import closing_ids, hidden_closing
from tandem.engine.text.images import NO_IMAGES, LoadedImages
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.calls import CallCodec, pythonic_calls, xml_calls
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.text.reading.rules import ReadingRules
from tandem.http.completion import answer
from tandem.http.context import SERVED_NAME, Context
from tandem.http.endpoint import Asked, Endpoint
from tandem.http.openai.answers import Answer, chat_body
from tandem.http.openai.chunks import ChatStream
from tandem.http.openai.formats import ReasoningFormat, stop_scope, wants_blank_lines
from tandem.http.openai.images import ImageRef, sight_of
from tandem.http.openai.requests import ChatRequest, Defaults, conversation, parse_chat
from tandem.http.openai.thinking import budget_row, resolve_cap
from tandem.http.reasoning import reasoning_format

__all__ = ["blueprint"]

blueprint = Blueprint("chat", __name__)


class Chat(Endpoint[ChatRequest]):
    name = "chat"
    id_prefix = "chatcmpl-"
    prompt_field = "messages"

    def parse(self, body: Mapping[str, Any], context: Context) -> ChatRequest:
        settings = context.settings
        defaults = Defaults(
            effort=settings.reasoning_effort,
            tool_format=settings.tool_format,
            sight=sight_of(context.card.images, settings.vision),
        )
        return parse_chat(body, context.text.is_token, defaults)

    def images(self, request: ChatRequest) -> tuple[ImageRef, ...]:
        return request.images

    def conversation(
        self, request: ChatRequest, first_date: datetime.date, images: LoadedImages = NO_IMAGES
    ) -> Conversation:
        return conversation(request, first_date, images)

    def prompt(self, request: ChatRequest, context: Context, conversation: Conversation | None) -> Prompt:
        assert conversation is not None
        return context.text.render(conversation)

    def session_ids(self, request: ChatRequest) -> tuple[str | None, ...]:
        return (request.conversation_id, request.session_id)

    def messages(self, request: ChatRequest) -> tuple[Mapping[str, Any], ...]:
        return request.messages

    def has_tools(self, request: ChatRequest) -> bool:
        return bool(request.tools)

    def reader(self, asked: Asked[ChatRequest], context: Context) -> Reader:
        request, rules = asked.request, _rules(asked)
        return AnswerReader(
            context.text,
            thinking=asked.prompt.thinking,
            stops=request.stops,
            stop_scope=stop_scope(
                reasoning_format(asked, context.settings), asked.kind, under_plan=asked.effects.under_plan
            ),
            calls=_codec(request, context, rules) if request.offers_tools or rules.refuses_calls else None,
            single_call=request.single_call,
            trims=isinstance(request.constraint, CallsOrDocument),
            rules=rules,
            trace=None if asked.watch is None else asked.watch.trace,
        )

    def cap(self, asked: Asked[ChatRequest], context: Context) -> ReasoningCap | None:
        # What the router decided to close is closed by a phrase that only the model reads (EFF-003).
        is_hidden = asked.effects.decides_cap and asked.request.n == 1
        closer, shown = hidden_closing(context.text) if is_hidden else (closing_ids(context.text), 0)
        tokens = resolve_cap(
            asked.request.budget,
            limit=asked.limit,
            reserve=context.settings.answer_reserve,
            closer=len(closer),
            wants_json=asked.request.wants_json,
        )
        if tokens is None:
            return None
        effects = asked.effects
        why = "route" if effects.decides_cap and not effects.is_clients_cap else "client"
        why = why if tokens == asked.request.budget.cap else "reserve"
        return ReasoningCap(tokens, closer, visible=not is_hidden, shown=shown, why=why)

    def told_budget(self, asked: Asked[ChatRequest], cap: ReasoningCap | None, context: Context) -> Mapping[str, Any]:
        request = asked.request
        return budget_row(
            request.budget,
            limit=asked.limit,
            reserve=context.settings.answer_reserve,
            cap=None if cap is None else cap.tokens,
            wants_json=request.wants_json,
        )

    def encoders(self, asked: Asked[ChatRequest], context: Context) -> _ChatEncoders:
        format = reasoning_format(asked, context.settings)
        blank_lines = wants_blank_lines(format, asked.kind, wants_json=asked.request.wants_json)
        return _ChatEncoders(asked, format, context.settings.reasoning_alias, blank_lines)


@dataclass(frozen=True, slots=True)
class _ChatEncoders:
    asked: Asked[ChatRequest]
    format: ReasoningFormat
    alias: bool
    blank_lines: bool

    def stream(self) -> ChatStream:
        head = self.asked.head
        return ChatStream(
            id=head.id,
            created=head.created,
            model=SERVED_NAME,
            include_usage=head.include_usage,
            usage_default=head.usage_default,
            names=head.names,
            sampled=self.asked.effects.sampling.chosen,
            reasoning_format=self.format,
            reasoning_alias=self.alias,
            blank_lines=self.blank_lines,
            lines=self.asked.lines,
        )

    def body(self, answers: Sequence[Answer]) -> bytes:
        head = self.asked.head
        return chat_body(
            id=head.id,
            created=head.created,
            model=SERVED_NAME,
            answers=answers,
            names=head.names,
            sampled=self.asked.effects.sampling.chosen,
            reasoning_format=self.format,
            reasoning_alias=self.alias,
            lines=self.asked.lines,
        )


def _rules(asked: Asked[ChatRequest]) -> ReadingRules:
    """What a plan adds to the reading (ANS-001 to ANS-003); the mask may act without one."""
    is_planned = asked.effects.under_plan
    # A document, or whatever else the answer is held to, is handed on as it was asked for.
    is_free = is_planned and asked.request.constraint is None
    return ReadingRules(
        spares_opening=is_planned,
        refuses_calls=is_free and not asked.request.offers_tools,
        drops_closers=is_free,
        mask=None if asked.mask is None else asked.mask.stage(),
        holds=asked.watch is not None and asked.watch.holds,
    )


def _codec(request: ChatRequest, context: Context, rules: ReadingRules) -> CallCodec:
    """Calls go out as they are written unless a stop string may still cut them (API-113, API-120), or they are held:
    a held one that is cut is a block for a check to see (MON-075, MON-079).
    """
    codec = xml_calls if context.settings.tool_format == "xml" else pythonic_calls
    return codec(request.tools, live=request.is_live and not rules.holds, new_id=_new_call_id)


def _new_call_id() -> str:
    return "call_" + secrets.token_hex(12)


@blueprint.post("/v1/chat/completions")
async def chat() -> Response:
    return await answer(Chat())
