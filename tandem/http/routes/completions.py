"""POST /v1/completions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from quart import Blueprint, Response

from tandem.engine.text.prompt import Prompt
from tandem.http.completion import Endpoint, Head, answer
from tandem.http.context import SERVED_NAME, Context
from tandem.http.openai.answers import Answer, completion_body
from tandem.http.openai.chunks import CompletionStream
from tandem.http.openai.requests import CompletionRequest, parse_completion

__all__ = ["blueprint"]

blueprint = Blueprint("completions", __name__)


class Completions(Endpoint[CompletionRequest]):
    name = "completions"
    id_prefix = "cmpl-"
    prompt_field = "prompt"

    def parse(self, body: Mapping[str, Any], context: Context) -> CompletionRequest:
        return parse_completion(body, context.text.is_token)

    def prompt(self, request: CompletionRequest, context: Context, first_date: datetime.date) -> Prompt:
        return context.text.read(request.prompt)

    def session_ids(self, request: CompletionRequest) -> tuple[str | None, ...]:
        return ()

    def stream(self, head: Head) -> CompletionStream:
        return CompletionStream(
            id=head.id,
            created=head.created,
            model=SERVED_NAME,
            include_usage=head.include_usage,
            usage_default=head.usage_default,
            names=head.names,
        )

    def body(self, head: Head, answers: Sequence[Answer]) -> bytes:
        return completion_body(id=head.id, created=head.created, model=SERVED_NAME, answers=answers, names=head.names)

    def messages(self, request: CompletionRequest) -> tuple[Mapping[str, Any], ...]:
        return ()


@blueprint.post("/v1/completions")
async def completions() -> Response:
    return await answer(Completions())
