"""The two completion requests: parsed once from the JSON body, frozen, in the engine's own terms where it has some."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from tandem.engine.grammar.constraints import Constraint
from tandem.engine.text.images import NO_IMAGES, LoadedImages
from tandem.engine.text.model import Conversation
from tandem.engine.verbs import SamplingRules
from tandem.http.openai.checks import MAX_INT, as_bool, as_int, as_object, as_str, as_word
from tandem.http.openai.errors import context_length_exceeded, invalid
from tandem.http.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS, refuse_fields
from tandem.http.openai.formats import ReasoningFormat
from tandem.http.openai.images import ImageParts, ImageRef, Sight, place_images
from tandem.http.openai.messages import read_messages
from tandem.http.openai.sampling import read_chat_logprobs, read_completion_logprobs, read_rules, read_stops
from tandem.http.openai.thinking import Budget, read_budget, template_defaults, template_kwargs
from tandem.http.openai.tools import (
    Named,
    ToolChoice,
    constrain,
    is_json,
    read_document,
    read_tool_choice,
    read_tools,
)

__all__ = [
    "ChatRequest",
    "CompletionRequest",
    "Defaults",
    "Request",
    "conversation",
    "parse_chat",
    "parse_completion",
    "resolve_limit",
    "to_rules",
]

MAX_CHOICES = 16
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed")
TEMPLATE_OWN = ("messages", "tools", "add_generation_prompt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What the server's settings and its model decide about reading a chat request."""

    effort: str = "medium"
    """`--reasoning-effort`."""
    tool_format: Literal["xml", "pythonic"] = "xml"
    sight: Sight = "blind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What both routes have in common."""

    model: str | None
    """The name the client sent; every name is served (API-034)."""
    stream: bool
    include_usage: bool | None
    """`stream_options.include_usage` of a streamed request; None where it is absent."""
    n: int
    limit: int | None
    """Output tokens asked for; `resolve_limit` gives the limit itself."""
    stops: tuple[str, ...]
    rules: SamplingRules
    """The rules of choice 0; `rules.logprobs` says what log-probabilities are wanted."""
    constraint: Constraint | None
    """What the answer must be; of a chat, once its reasoning has ended."""
    sampled: frozenset[str] = frozenset()
    """The fields of sampling that the client sent, which a plan leaves alone (SMP-003)."""
    sends_ngram: bool = False
    """`no_repeat_ngram_size` is the client's; else the server's default holds (ENG-079)."""

    @property
    def is_live(self) -> bool:
        """The answer goes out as it is written, with no stop string that may still cut it."""
        return self.stream and not self.stops


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(Request):
    """A chat completion. Messages stand in the form of `Conversation`, tools as sent."""

    messages: tuple[Mapping[str, Any], ...]
    images: tuple[ImageRef, ...]
    """The images that the messages' parts name by index."""
    tools: tuple[Mapping[str, Any], ...]
    tool_choice: ToolChoice
    parallel_tool_calls: bool | None
    template_kwargs: Mapping[str, Any]
    """What reaches the chat template, `enable_thinking` among it where the client chose."""
    template_defaults: Mapping[str, Any]
    """The server's own arguments, which a template may refuse."""
    budget: Budget
    reasoning_format: ReasoningFormat | None
    wants_json: bool
    """A JSON document was asked for (API-130)."""
    conversation_id: str | None
    session_id: str | None

    @property
    def offers_tools(self) -> bool:
        """The model may call tools; with `tool_choice: "none"` it sees none (API-116)."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def single_call(self) -> bool:
        """The generation ends at the first complete call (API-119)."""
        if isinstance(self.tool_choice, Named):
            return not self.parallel_tool_calls
        return self.parallel_tool_calls is False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(Request):
    """A text completion; `prompt` is text or token ids of the vocabulary."""

    prompt: str | tuple[int, ...]


def parse_chat(
    body: Mapping[str, Any], is_token: Callable[[int], bool], defaults: Defaults | None = None
) -> ChatRequest:
    """Raises `ApiError` 400 naming the first field that cannot be served. `is_token` knows the vocabulary."""
    defaults = defaults or Defaults()
    refuse_fields(body, CHAT_FIELDS)
    modalities = body.get("modalities")
    if modalities is not None and modalities != ["text"]:
        raise invalid("modalities", 'modalities must be ["text"]')
    images = ImageParts(defaults.sight)
    messages = read_messages(body.get("messages"), images)
    tools = read_tools(body.get("tools"))
    tool_choice = read_tool_choice(body.get("tool_choice"), tools)
    parallel = as_bool(body.get("parallel_tool_calls"), "parallel_tool_calls")
    document = read_document(body)
    sent = _template_kwargs(body)
    budget = read_budget(body, sent, default=defaults.effort)
    limit = _limit(body, "max_tokens")
    newer = _limit(body, "max_completion_tokens")
    return ChatRequest(
        **_common(body, is_token, read_chat_logprobs(body)),
        limit=limit if newer is None else newer,
        constraint=constrain(document, tools, tool_choice, parallel=parallel, tool_format=defaults.tool_format),
        messages=messages,
        images=images.refs,
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=parallel,
        template_kwargs=template_kwargs(budget, sent),
        template_defaults=template_defaults(budget, defaults.effort),
        budget=budget,
        reasoning_format=_reasoning_format(body.get("reasoning_format")),
        wants_json=is_json(document),
        conversation_id=as_str(body.get("conversation_id"), "conversation_id"),
        session_id=as_str(body.get("session_id"), "session_id"),
    )


def parse_completion(body: Mapping[str, Any], is_token: Callable[[int], bool]) -> CompletionRequest:
    """Raises `ApiError` 400 naming the first field that cannot be served. `is_token` knows the vocabulary."""
    refuse_fields(body, COMPLETION_FIELDS)
    prompt = _prompt(body.get("prompt"), is_token)
    document = read_document({"structured_outputs": body.get("structured_outputs")})
    common = _common(body, is_token, read_completion_logprobs(body))
    best_of = as_int(body.get("best_of"), "best_of", low=1, high=MAX_CHOICES)
    if best_of not in (None, 1, common["n"]):
        raise invalid("best_of", "best_of must be 1 or equal to n")
    return CompletionRequest(**common, limit=_limit(body, "max_tokens"), constraint=document, prompt=prompt)


def to_rules(request: Request, choice: int = 0) -> SamplingRules:
    """The sampling rules of one choice of the request."""
    return replace(request.rules, choice=choice)


def conversation(request: ChatRequest, today: datetime.date, images: LoadedImages = NO_IMAGES) -> Conversation:
    """What the chat template renders: without the images that are left out, which the request itself keeps (API-249).

    With `tool_choice: "none"` it sees no tools (API-116).
    """
    return Conversation(
        messages=place_images(request.messages, images.left_out) if images.left_out else request.messages,
        tools=request.tools if request.offers_tools else (),
        template_kwargs=request.template_kwargs,
        template_defaults=request.template_defaults,
        today=today,
        images=images,
    )


def resolve_limit(
    asked: int | None, default_max_tokens: int, prompt_tokens: int, max_len: int, param: str = "messages"
) -> int:
    """Output tokens the request may have: what was asked, else the default, lowered to what fits (API-033).

    `prompt_tokens` are the client's alone. Raises `context_length_exceeded` when not even one token of output would
    fit beside them (API-045); `param` is the field it names.
    """
    if prompt_tokens > max_len - 1:
        raise context_length_exceeded(prompt_tokens, max_len, param)
    return min(default_max_tokens if asked is None else asked, max_len - prompt_tokens)


def _common(body: Mapping[str, Any], is_token: Callable[[int], bool], logprobs: int | None) -> dict[str, Any]:
    stream = as_bool(body.get("stream"), "stream") or False
    options = as_object(body.get("stream_options"), "stream_options") or {}
    include_usage = as_bool(options.get("include_usage"), "stream_options.include_usage")
    n = as_int(body.get("n"), "n", low=1, high=MAX_CHOICES) or 1
    if n > 1 and stream:
        raise invalid("n", "n above 1 cannot be streamed")
    return {
        "model": as_str(body.get("model"), "model"),
        "stream": stream,
        "include_usage": include_usage if stream else None,
        "n": n,
        "stops": read_stops(body.get("stop")),
        "rules": read_rules(body, is_token, logprobs),
        "sampled": frozenset(name for name in SAMPLING if body.get(name) is not None),
        "sends_ngram": body.get("no_repeat_ngram_size") is not None,
    }


def _reasoning_format(value: Any) -> ReasoningFormat | None:
    word = as_word(value, "reasoning_format", get_args(ReasoningFormat))
    return cast(ReasoningFormat | None, word)


def _limit(body: Mapping[str, Any], name: str) -> int | None:
    limit = as_int(body.get(name), name, low=1)
    return None if limit is None else min(limit, MAX_INT)


def _template_kwargs(body: Mapping[str, Any]) -> Mapping[str, Any]:
    sent = as_object(body.get("chat_template_kwargs"), "chat_template_kwargs") or {}
    for name in TEMPLATE_OWN:
        if sent.get(name) is not None:
            path = f"chat_template_kwargs.{name}"
            raise invalid(path, f"{path} cannot be set; the server sets it from the request")
    return {name: value for name, value in sent.items() if name not in TEMPLATE_OWN}


def _prompt(value: Any, is_token: Callable[[int], bool]) -> str | tuple[int, ...]:
    if isinstance(value, list) and value and isinstance(value[0], (str, list)):
        if len(value) > 1:
            raise invalid("prompt", "prompt holds several prompts; send one a request")
        [value] = value
    if not isinstance(value, (str, list)):
        raise invalid("prompt", "prompt must be a string or a list of token ids")
    if not value:
        raise invalid("prompt", "prompt must not be empty")
    if isinstance(value, str):
        return value
    for i, token in enumerate(value):
        if not isinstance(token, int) or isinstance(token, bool) or not is_token(token):
            raise invalid("prompt", f"prompt[{i}] is not a token id of the vocabulary")
    return tuple(value)
