"""POST /v1/completions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quart import Blueprint, Response

from tandem.engine.decoding.generation import ReasoningCap
from tandem.engine.decoding.seams import Reader
from tandem.engine.text.images import NO_IMAGES, LoadedImages
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.reader import PlainReader
from tandem.http.completion import answer
from tandem.http.context import SERVED_NAME, Context
from tandem.http.endpoint import Asked, Endpoint, Head
from tandem.http.openai.answers import Answer, completion_body
from tandem.http.openai.images import ImageRef
from tandem.http.openai.requests import CompletionRequest, parse_completion
from tandem.http.openai.streams import CompletionStream

__all__ = ["blueprint"]

blueprint = Blueprint("completions", __name__)


class Completions(Endpoint[CompletionRequest]):
    name = "completions"
    id_prefix = "cmpl-"
    prompt_field = "prompt"

    def parse(self, body: Mapping[str, Any], context: Context) -> CompletionRequest:
        return parse_completion(body, context.text.is_token)

    def images(self, request: CompletionRequest) -> tuple[ImageRef, ...]:
        return ()

    def conversation(
        self, request: CompletionRequest, first_date: datetime.date, images: LoadedImages = NO_IMAGES
    ) -> None:
        return None

    def prompt(self, request: CompletionRequest, context: Context, conversation: Conversation | None) -> Prompt:
        # No reasoning is split off on this route, so a constraint holds from the first token on (API-047).
        return replace(context.text.read(request.prompt), thinking="off")

    def session_ids(self, request: CompletionRequest) -> tuple[str | None, ...]:
        return ()

    def messages(self, request: CompletionRequest) -> tuple[Mapping[str, Any], ...]:
        return ()

    def has_tools(self, request: CompletionRequest) -> bool:
        return False

    def reader(self, asked: Asked[CompletionRequest], context: Context) -> Reader:
        return PlainReader(context.text, asked.request.stops)

    def cap(self, asked: Asked[CompletionRequest], context: Context) -> ReasoningCap | None:
        return None

    def told_budget(
        self, asked: Asked[CompletionRequest], cap: ReasoningCap | None, context: Context
    ) -> Mapping[str, Any]:
        return {}

    def encoders(self, asked: Asked[CompletionRequest], context: Context) -> _CompletionEncoders:
        return _CompletionEncoders(asked.head)


@dataclass(frozen=True, slots=True)
class _CompletionEncoders:
    head: Head

    def stream(self) -> CompletionStream:
        head = self.head
        return CompletionStream(
            id=head.id,
            created=head.created,
            model=SERVED_NAME,
            include_usage=head.include_usage,
            usage_default=head.usage_default,
            names=head.names,
        )

    def body(self, answers: Sequence[Answer]) -> bytes:
        head = self.head
        return completion_body(id=head.id, created=head.created, model=SERVED_NAME, answers=answers, names=head.names)


@blueprint.post("/v1/completions")
async def completions() -> Response:
    return await answer(Completions())
