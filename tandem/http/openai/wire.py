"""The shapes of what the server sends, as types: OpenAPI's schemas are made from them (API-265).

The encoders write these shapes by hand, a chunk as bytes around one string; a test checks what the service really sends
against the schemas. Members that are not named here are forbidden there.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = [
    "ChatChunk",
    "ChatCompletion",
    "ErrorBody",
    "ModelCard",
    "ModelList",
    "ShortHealth",
    "TextChunk",
    "TextCompletion",
]

NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
FinishReason: TypeAlias = Annotated[
    Literal["stop", "length", "tool_calls", "timeout"],
    Meta(description="stop: end token or stop string. length: the limit. timeout: --request-timeout ran out."),
]
Created: TypeAlias = Annotated[int, Meta(ge=0, description="Seconds since 1970 at which the response was begun.")]


class Sent(Struct, forbid_unknown_fields=True):
    """Whatever goes out."""


class PromptTokensDetails(Sent):
    """Parts of the prompt."""

    cached_tokens: Annotated[int, Meta(ge=0, description="Tokens that had been read before.")]
    hidden_tokens: Annotated[Count | UnsetType, Meta(description="Further tokens the model read; absent when 0.")] = (
        UNSET
    )


class CompletionTokensDetails(Sent):
    """Parts of the completion."""

    reasoning_tokens: Annotated[int, Meta(ge=0, description="Visible reasoning, through its closing tag.")]


class UsageByTandem(Sent):
    """What the server itself decided."""

    sampling: Annotated[
        Literal["regenerate", "loop_escape", "card"], Meta(description="The rule by which it chose the sampling.")
    ]


class Usage(Sent):
    """Token counts. With several choices the prompt counts once and the completions are added up."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Annotated[int, Meta(ge=0, description="The sum of the two.")]
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails
    tandem: Annotated[UsageByTandem | UnsetType, Meta(description="Absent where it decided nothing.")] = UNSET


class Timings(Sent):
    """What the engine counted and how long it took; times in milliseconds."""

    cache_n: Annotated[int, Meta(ge=0, description="Prompt tokens found in a cache.")]
    prompt_n: Annotated[int, Meta(ge=0, description="Prompt tokens read now.")]
    prompt_ms: Amount
    prompt_per_token_ms: Amount
    prompt_per_second: Amount
    predicted_n: Count
    predicted_ms: Amount
    predicted_per_token_ms: Amount
    predicted_per_second: Annotated[float, Meta(ge=0, description="Tokens after the first over the decode time.")]
    draft_n: Annotated[int, Meta(ge=0, description="Tokens drafted by speculation.")]
    draft_n_accepted: Annotated[int, Meta(ge=0, description="Of those, tokens that were taken.")]
    ttft_ms: Annotated[float, Meta(ge=0, description="Arrival to first token: queue_ms and prompt_ms.")]
    queue_ms: Annotated[float, Meta(ge=0, description="Arrival to engine.")]
    total_ms: Amount
    blocks: Annotated[int, Meta(ge=0, description="Decode rounds.")]
    tokens_per_block: Amount
    reasoning_n: Count
    cache_source: Literal["response", "session", "prefix", "none"]


class Error(Sent):
    """A refusal or a failure."""

    message: str
    type: Annotated[str, Meta(description="A class of causes, as OpenAI names them.")]
    param: Annotated[str | None, Meta(description="The field or header at fault, nested ones with their path.")]
    code: Annotated[str | None, Meta(description="The cause, for programs: context_length_exceeded, queue_full, …")]
    status: Annotated[int, Meta(ge=400, le=599, description="The HTTP status.")]
    n_prompt_tokens: Annotated[Count | UnsetType, Meta(description="With context_length_exceeded.")] = UNSET
    n_ctx: Annotated[Count | UnsetType, Meta(description="With context_length_exceeded: the window.")] = UNSET


class StreamError(Error):
    """A refusal or a failure once a stream was open."""

    retry_after: Annotated[Count | UnsetType, Meta(description="Seconds, in place of the header Retry-After.")] = UNSET


class ErrorBody(Sent):
    """The body of every response whose status is 400 or above."""

    error: Error


class TopToken(Sent):
    """A token and the natural logarithm of its probability."""

    token: str
    logprob: float
    bytes: Annotated[list[Annotated[int, Meta(ge=0, le=255)]], Meta(description="The bytes the token stands for.")]


class TokenEntry(TopToken):
    """One token of the content."""

    top_logprobs: Annotated[list[TopToken], Meta(description="The most probable tokens at this place.")]


class ChatLogprobs(Sent):
    """Log-probabilities of the tokens whose text is in the content."""

    content: list[TokenEntry]


class CalledFunction(Sent):
    """What is called."""

    name: str
    arguments: Annotated[str, Meta(description="A JSON object as a string.")]


class ToolCall(Sent):
    """A call of an offered tool."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class ChatMessage(Sent):
    """The answer of one choice."""

    role: Literal["assistant"]
    content: Annotated[str | None, Meta(description="null beside calls without text.")]
    reasoning_content: str | UnsetType = UNSET
    reasoning: Annotated[str | UnsetType, Meta(description="The same text; --reasoning-alias off removes it.")] = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


class ChatChoice(Sent):
    """One answer."""

    index: Count
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason


class ChatCompletion(Sent):
    """A whole chat completion."""

    id: NonEmpty
    object: Literal["chat.completion"]
    created: Created
    model: Literal["TandemLLM"]
    choices: list[ChatChoice]
    usage: Usage
    timings: Timings


class FunctionPiece(Sent, kw_only=True):
    """A piece of a call's function; the pieces of `arguments` are joined."""

    name: str | UnsetType = UNSET
    arguments: str


class CallPiece(Sent, kw_only=True):
    """A piece of a call; `id`, `type` and the name come with the first."""

    index: Count
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: FunctionPiece


class Delta(Sent):
    """What a chunk adds to the message; empty in the last one."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    tool_calls: list[CallPiece] | UnsetType = UNSET


class ChunkChoice(Sent):
    """A chunk's part of one answer; `error` ends a stream that failed."""

    index: Count
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | Literal["error"] | None


class ChatChunk(Sent):
    """One event of a streamed chat completion. Usage and timings come with the last chunk, or in one of their own."""

    id: NonEmpty
    object: Literal["chat.completion.chunk"]
    created: Created
    model: Literal["TandemLLM"]
    choices: Annotated[list[ChunkChoice], Meta(description="Empty in a chunk that holds the usage alone.")]
    usage: Usage | UnsetType | None = UNSET
    timings: Timings | UnsetType = UNSET
    error: Annotated[StreamError | UnsetType, Meta(description="Why the stream ends early.")] = UNSET


class LegacyLogprobs(Sent):
    """Log-probabilities of a text, one entry a token."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: Annotated[list[Count], Meta(description="Where each token starts, in characters of the text.")]


class TextChoice(Sent):
    """One continuation."""

    index: Count
    text: str
    logprobs: LegacyLogprobs | None
    finish_reason: FinishReason


class TextCompletion(Sent):
    """A whole text completion."""

    id: NonEmpty
    object: Literal["text_completion"]
    created: Created
    model: Literal["TandemLLM"]
    choices: list[TextChoice]
    usage: Usage
    timings: Timings


class TextChunkChoice(Sent):
    """A chunk's part of one continuation; `error` ends a stream that failed."""

    index: Count
    text: str
    logprobs: LegacyLogprobs | None
    finish_reason: FinishReason | Literal["error"] | None


class TextChunk(Sent):
    """One event of a streamed text completion."""

    id: NonEmpty
    object: Literal["text_completion"]
    created: Created
    model: Literal["TandemLLM"]
    choices: Annotated[list[TextChunkChoice], Meta(description="Empty in a chunk that holds the usage alone.")]
    usage: Usage | UnsetType | None = UNSET
    timings: Timings | UnsetType = UNSET
    error: Annotated[StreamError | UnsetType, Meta(description="Why the stream ends early.")] = UNSET


class ModelMeta(Sent):
    """The window once more, where some clients look for it."""

    n_ctx: Annotated[int, Meta(ge=1)]


class ModelCard(Sent):
    """A served model; the window has three names, all equal."""

    id: str
    object: Literal["model"]
    created: Annotated[int, Meta(ge=0, description="Seconds since 1970 at which the service started.")]
    owned_by: Literal["tandem"]
    base_model: Annotated[str, Meta(description="The checkpoint's own name.")]
    context_length: Annotated[int, Meta(ge=1, description="The window in tokens, prompt and answer together.")]
    max_model_len: Annotated[int, Meta(ge=1)]
    meta: ModelMeta


class ModelList(Sent):
    """The served models."""

    object: Literal["list"]
    data: list[ModelCard]


class ShortHealth(Sent):
    """What a caller learns who may not see all of `Health`."""

    status: Literal["ok", "draining", "failed"]
    model: Literal["TandemLLM"]
