"""What a generation says to the client, piece by piece. The encoder alone turns these into chunks or a body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tandem.engine.verbs import NOTHING_SPENT, Spent, TokenLogprob

__all__ = [
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Blank",
    "Content",
    "Delta",
    "Finish",
    "FinishReason",
    "Line",
    "Reasoning",
    "ReasoningEnd",
    "ReasoningStart",
    "Timings",
    "Usage",
]

FinishReason = Literal["stop", "length", "tool_calls", "timeout", "error", "abandoned"]
"""`abandoned` is never sent: the client it would go to has left (API-169)."""


@dataclass(frozen=True, slots=True)
class ReasoningStart:
    """The thinking block is open: by the prompt, or by a tag of the model that is itself not handed on (API-258)."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the thinking block, without its tags; log-probabilities as in `Content`."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasoningEnd:
    """The model, or the server, has written the closing tag. Log-probabilities are those of the tag's tokens."""

    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Blank:
    """The blank lines between the closing tag and the answer's own text; at most one a choice (API-076)."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Content:
    """Text of the answer, with the log-probabilities of the tokens it completes where they were asked for."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call opens: index in the response, id, function name."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of a call's JSON arguments."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The call is complete."""

    index: int


@dataclass(frozen=True, slots=True)
class Line:
    """A state line of the conductor; never a token."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the client sees them (section 18 of the HTTP API), and the engine's own beside them."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0
    hidden: int = 0
    replayed: int = 0
    """Of the hidden ones those of earlier answers that were put back (ENG-111)."""
    engine_cached: int = 0
    """Rows found in a cache, hidden ones included (`cache_n`)."""
    engine_prompt: int = 0
    """Rows forwarded by the prefill, hidden ones included (`prompt_n`)."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds and counts of API-160, all measured between safe points."""

    queue_ms: float = 0.0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0
    total_ms: float = 0.0
    blocks: int = 0
    drafted: int = 0
    draft_accepted: int = 0
    spent: Spent = NOTHING_SPENT
    """Draft, verify and commit milliseconds of all rounds; not on the wire."""
    cache_source: Literal["response", "session", "prefix", "none"] = "none"


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of one choice. `detail` says more where the reason alone does not; for `error`, what went wrong."""

    reason: FinishReason
    usage: Usage
    timings: Timings
    detail: str | None = None


Delta: TypeAlias = (
    ReasoningStart | Reasoning | ReasoningEnd | Blank | Content | CallStart | CallArguments | CallEnd | Line | Finish
)
