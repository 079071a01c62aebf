"""POST /v1/chat/completions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from quart import Blueprint, Response

from tandem.engine.text.prompt import Prompt
from tandem.http.completion import Endpoint, Head, answer
from tandem.http.context import SERVED_NAME, Context
from tandem.http.openai.answers import Answer, chat_body
from tandem.http.openai.chunks import ChatStream
from tandem.http.openai.requests import ChatRequest, conversation, parse_chat

__all__ = ["blueprint"]

blueprint = Blueprint("chat", __name__)


class Chat(Endpoint[ChatRequest]):
    name = "chat"
    id_prefix = "chatcmpl-"
    prompt_field = "messages"

    def parse(self, body: Mapping[str, Any], context: Context) -> ChatRequest:
        return parse_chat(body, context.text.is_token)

    def prompt(self, request: ChatRequest, context: Context, first_date: datetime.date) -> Prompt:
        return context.text.render(conversation(request, first_date))

    def session_ids(self, request: ChatRequest) -> tuple[str | None, ...]:
        return (request.conversation_id, request.session_id)

    def stream(self, head: Head) -> ChatStream:
        return ChatStream(
            id=head.id,
            created=head.created,
            model=SERVED_NAME,
            include_usage=head.include_usage,
            usage_default=head.usage_default,
            names=head.names,
        )

    def body(self, head: Head, answers: Sequence[Answer]) -> bytes:
        return chat_body(id=head.id, created=head.created, model=SERVED_NAME, answers=answers, names=head.names)

    def messages(self, request: ChatRequest) -> tuple[Mapping[str, Any], ...]:
        return request.messages


@blueprint.post("/v1/chat/completions")
async def chat() -> Response:
    return await answer(Chat())
