"""What a completion request asks for, and what chat and text completions do differently about it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tandem.conductor.masking.mask import SecretMask
from tandem.conductor.router.client_kind import ClientKind
from tandem.conductor.router.plan import NO_EFFECTS, Effects
from tandem.engine.decoding.generation import ReasoningCap
from tandem.engine.decoding.seams import Reader
from tandem.engine.text.images import NO_IMAGES, LoadedImages
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.trace import Trace
from tandem.http.answering import Encoders
from tandem.http.context import Context
from tandem.http.openai.images import ImageRef
from tandem.http.openai.lines import LineWay
from tandem.http.openai.logprobs import TokenNames
from tandem.http.openai.requests import Request

__all__ = ["Asked", "Endpoint", "Head", "Watch"]

RequestT = TypeVar("RequestT", bound=Request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What every chunk or body of one response repeats, and how its counts are wanted."""

    id: str
    created: int
    include_usage: bool | None
    usage_default: bool
    names: TokenNames | None
    """Shows tokens where log-probabilities were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[RequestT]):
    """A request with all that was found out about it before its turn in the queue."""

    request: RequestT
    kind: ClientKind
    prompt: Prompt
    limit: int
    head: Head
    effects: Effects = NO_EFFECTS
    """What of its plan is applied; without one nothing is."""
    mask: SecretMask | None = field(default=None, compare=False)
    """Hides or counts the secrets that its tool results hold."""
    lines: LineWay | None = field(default=None, compare=False)
    """How its state lines are shown; None where it has none."""
    watch: Watch | None = field(default=None, compare=False)
    """Who looks on while its first choice is read."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What a reader does for the monitor: writes the trace, and holds calls where a check may act on them."""

    trace: Trace
    holds: bool


class Endpoint(Protocol[RequestT]):
    """What chat and text completions do differently."""

    name: ClassVar[str]
    id_prefix: ClassVar[str]
    prompt_field: ClassVar[str]

    def parse(self, body: Mapping[str, Any], context: Context) -> RequestT:
        """Raises `ApiError` naming the field at fault."""

    def images(self, request: RequestT) -> tuple[ImageRef, ...]:
        """The images that the messages name by index; only where the context has a loader of images."""

    def conversation(
        self, request: RequestT, first_date: datetime.date, images: LoadedImages = NO_IMAGES
    ) -> Conversation | None:
        """What the prompt is rendered of; None for text completions. `first_date` is the session's first request's."""

    def prompt(self, request: RequestT, context: Context, conversation: Conversation | None) -> Prompt:
        """Raises `BadInput` naming the field at fault."""

    def session_ids(self, request: RequestT) -> tuple[str | None, ...]:
        """The session ids in the body, best first."""

    def messages(self, request: RequestT) -> tuple[Mapping[str, Any], ...]:
        """The conversation, for telling the client's kind; empty for text completions."""

    def has_tools(self, request: RequestT) -> bool:
        """Whether it came with tools."""

    def reader(self, asked: Asked[RequestT], context: Context) -> Reader:
        """The reader of one choice."""

    def cap(self, asked: Asked[RequestT], context: Context) -> ReasoningCap | None:
        """Where the reasoning is closed."""

    def told_budget(self, asked: Asked[RequestT], cap: ReasoningCap | None, context: Context) -> Mapping[str, Any]:
        """What log and row say of the budget that the client asked for (API-103, EFF-017)."""

    def encoders(self, asked: Asked[RequestT], context: Context) -> Encoders:
        """What writes the answer."""
