"""The two completion requests: parsed once from the JSON body, frozen, in the engine's own terms where it has some."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tandem.engine.text.model import Conversation
from tandem.engine.verbs import SamplingRules
from tandem.http.openai.checks import MAX_INT, as_bool, as_int, as_number, as_object, as_str, as_word
from tandem.http.openai.errors import context_length_exceeded, invalid
from tandem.http.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS, refuse_fields
from tandem.http.openai.messages import read_messages
from tandem.http.openai.sampling import read_chat_logprobs, read_completion_logprobs, read_rules, read_stops
from tandem.http.openai.thinking import read_thinking
from tandem.http.openai.tools import ToolChoice, check_constraints, read_tool_choice, read_tools

__all__ = [
    "ChatRequest",
    "CompletionRequest",
    "Request",
    "conversation",
    "parse_chat",
    "parse_completion",
    "resolve_limit",
    "to_rules",
]

MAX_CHOICES = 16
REASONING_FORMATS = ("tags", "reasoning_content", "both")
TEMPLATE_OWN = ("messages", "tools", "add_generation_prompt")
NULL_IS_ABSENT = (*TEMPLATE_OWN, "enable_thinking", "reasoning_effort", "thinking_budget")
"""Template keys that the server itself knows: a null one is dropped, since a template would read it as a value."""


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
    draft_temperature: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(Request):
    """A chat completion. Messages stand in the form of `Conversation`, tools as sent."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    tool_choice: ToolChoice
    parallel_tool_calls: bool | None
    template_kwargs: Mapping[str, Any]
    """What reaches the chat template, `enable_thinking` among it where the client chose."""
    reasoning_format: str | None
    conversation_id: str | None
    session_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(Request):
    """A text completion; `prompt` is text or token ids of the vocabulary."""

    prompt: str | tuple[int, ...]


def parse_chat(body: Mapping[str, Any], is_token: Callable[[int], bool]) -> ChatRequest:
    """Raises `ApiError` 400 naming the first field that cannot be served. `is_token` knows the vocabulary."""
    refuse_fields(body, CHAT_FIELDS)
    modalities = body.get("modalities")
    if modalities is not None and modalities != ["text"]:
        raise invalid("modalities", 'modalities must be ["text"]')
    messages = read_messages(body.get("messages"))
    tools = read_tools(body.get("tools"))
    tool_choice = read_tool_choice(body.get("tool_choice"), tools)
    check_constraints(body)
    limit = _limit(body, "max_tokens")
    newer = _limit(body, "max_completion_tokens")
    return ChatRequest(
        **_common(body, is_token, read_chat_logprobs(body)),
        limit=limit if newer is None else newer,
        messages=messages,
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=as_bool(body.get("parallel_tool_calls"), "parallel_tool_calls"),
        template_kwargs=_template_kwargs(body),
        reasoning_format=as_word(body.get("reasoning_format"), "reasoning_format", REASONING_FORMATS),
        conversation_id=as_str(body.get("conversation_id"), "conversation_id"),
        session_id=as_str(body.get("session_id"), "session_id"),
    )


def parse_completion(body: Mapping[str, Any], is_token: Callable[[int], bool]) -> CompletionRequest:
    """Raises `ApiError` 400 naming the first field that cannot be served. `is_token` knows the vocabulary."""
    refuse_fields(body, COMPLETION_FIELDS)
    prompt = _prompt(body.get("prompt"), is_token)
    check_constraints({"structured_outputs": body.get("structured_outputs")})
    common = _common(body, is_token, read_completion_logprobs(body))
    best_of = as_int(body.get("best_of"), "best_of", low=1, high=MAX_CHOICES)
    if best_of not in (None, 1, common["n"]):
        raise invalid("best_of", "best_of must be 1 or equal to n")
    return CompletionRequest(**common, limit=_limit(body, "max_tokens"), prompt=prompt)


def to_rules(request: Request, choice: int = 0) -> SamplingRules:
    """The sampling rules of one choice of the request."""
    return replace(request.rules, choice=choice)


def conversation(request: ChatRequest, today: datetime.date) -> Conversation:
    """What the chat template renders. With `tool_choice: "none"` it sees no tools (API-116)."""
    return Conversation(
        messages=request.messages,
        tools=() if request.tool_choice == "none" else request.tools,
        template_kwargs=request.template_kwargs,
        today=today,
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
        "draft_temperature": as_number(body.get("draft_temperature"), "draft_temperature", low=0, high=2),
    }


def _limit(body: Mapping[str, Any], name: str) -> int | None:
    limit = as_int(body.get(name), name, low=1)
    return None if limit is None else min(limit, MAX_INT)


def _template_kwargs(body: Mapping[str, Any]) -> dict[str, Any]:
    sent = as_object(body.get("chat_template_kwargs"), "chat_template_kwargs") or {}
    for name in TEMPLATE_OWN:
        if sent.get(name) is not None:
            path = f"chat_template_kwargs.{name}"
            raise invalid(path, f"{path} cannot be set; the server sets it from the request")
    thinking = read_thinking(body, sent)
    kwargs = {name: value for name, value in sent.items() if value is not None or name not in NULL_IS_ABSENT}
    return kwargs if thinking is None else kwargs | {"enable_thinking": thinking}


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
