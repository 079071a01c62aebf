"""The field table of the two completion routes: what becomes of each field a client may send (API, section 6).

One row a field; a nested field has its path. Refusals, logged fields, OpenAPI's request schemas, /docs and
docs/fields.md are all made from these rows. Null counts as absent everywhere (API-028), so no schema here says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["CHAT", "COMPLETIONS", "Disposition", "Field"]


class Disposition(Enum):
    """What the server does with a field. A field outside the table passes without effect (API-029)."""

    HONOURED = "honoured"
    ACCEPTED = "accepted without effect"
    """It changes no token of the answer."""
    REFUSED = "refused"
    """A 400 that names the field."""
    EXTENSION = "extension"
    """Read, though OpenAI's API does not have it."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a request."""

    name: str
    """Its path: `reasoning.max_tokens` is a member of `reasoning`."""
    disposition: Disposition
    schema: Mapping[str, Any]
    """JSON Schema of the values that are served; of a refused field, of those that pass all the same."""
    meaning: str
    """What it does, for a reader; code stands in backquotes."""
    ids: tuple[str, ...]
    """The requirements it comes from."""
    required: bool = False
    instead: str = "leave it out"
    """What a refusal advises."""
    is_word: bool = False
    """Whether its strings are names that a log may show, never a client's text."""


def _rows(disposition: Disposition) -> Callable[..., Field]:
    def row(name: str, schema: Mapping[str, Any], meaning: str, *ids: str, **more: Any) -> Field:
        return Field(name, disposition, schema, meaning, ids, **more)

    return row


_honoured, _accepted, _refused, _extension = map(_rows, Disposition)


def _number(low: float, high: float | None = None, *, above: bool = False) -> dict[str, Any]:
    lowest = {"exclusiveMinimum" if above else "minimum": low}
    return {"type": "number", **lowest, **({} if high is None else {"maximum": high})}


def _whole(low: int, high: int | None = None) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, **({} if high is None else {"maximum": high})}


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def _list(items: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _shape(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


ANYTHING: Mapping[str, Any] = {}
NOTHING = {"type": "null"}
BOOLEAN = {"type": "boolean"}
STRING = {"type": "string"}
OBJECT = {"type": "object"}
TEXT = {"type": "string", "minLength": 1}
STOPS = {"title": "a string or a list of up to 16, none of them empty", "anyOf": [TEXT, _list(TEXT, maxItems=16)]}
BIASES = {
    "title": "an object of token ids to numbers from -100 to 100",
    "type": "object",
    "propertyNames": {"pattern": "^(0|[1-9][0-9]{0,9})$"},
    "additionalProperties": _number(-100, 100),
}
TOKENS = _list(_whole(0), minItems=1)
PROMPT = {
    "title": "a text, a list of token ids, or a list with one of either",
    "anyOf": [TEXT, TOKENS, _list({"anyOf": [TEXT, TOKENS]}, minItems=1, maxItems=1)],
}
CHOICE = {
    "title": '`"auto"`, `"none"`, `"required"` or `NamedTool`',
    "anyOf": [_one_of("auto", "none", "required"), _shape("NamedTool")],
}
EFFORT = _one_of("none", "off", "minimal", "low", "medium", "high", "xhigh", "max")
BUDGET = _whole(0)
SEED = {"title": "a 64-bit integer", **_whole(-(2**63), 2**63 - 1)}

_SAME_BUDGET = "As `max_reasoning_tokens`, which wins over it."
_SAME_EFFORT = "As `reasoning_effort`."

_MODEL = _honoured(
    "model", STRING, "Any name, or none: every request is served by the one model.", "API-034", is_word=True
)
_STREAM = (
    _honoured("stream", BOOLEAN, "Answer with server-sent events, the last of them `data: [DONE]`.", "API-136"),
    _honoured("stream_options", OBJECT, "Options of a stream; without `stream` they have no effect.", "API-037"),
    _honoured(
        "stream_options.include_usage",
        BOOLEAN,
        "`true` sends the usage in a chunk of its own, `false` not at all. Without the option usage and timings ride "
        "on the last chunk.",
        "API-140",
    ),
)
_LIMIT = _honoured(
    "max_tokens", _whole(1), "Limit of the output in tokens, reasoning included; lowered to what fits.", "API-033"
)
_SAMPLING = (
    _honoured("stop", STOPS, "Strings that end the answer; the one that was met is not sent.", "API-083"),
    _honoured("temperature", _number(0, 2), "0, the default, is greedy.", "API-170", "API-171"),
    _honoured("top_p", _number(0, 1, above=True), "Draw from the likeliest tokens that sum up to this.", "API-171"),
    _honoured("seed", SEED, "A seeded request repeats its text; each choice draws by seed and index.", "API-173"),
    _honoured("presence_penalty", _number(-2, 2), "Taken once from each token that has occurred.", "API-171"),
    _honoured("frequency_penalty", _number(-2, 2), "Taken from a token for each time it has occurred.", "API-171"),
    _honoured("logit_bias", BIASES, "Added to the logits of these token ids of the vocabulary.", "API-171"),
)
_CHOICES = _honoured("n", _whole(1, 16), "How many choices; above 1 only without `stream`.", "API-032")
_SAMPLING_EXTENSIONS = (
    _extension("top_k", _whole(-1), "Draw from this many tokens; 0 and -1 take all of them.", "API-171"),
    _extension("min_p", _number(0, 1), "Leave out tokens below this share of the best one's probability.", "API-171"),
    _extension(
        "repetition_penalty",
        _number(0, above=True),
        "Above 1, tokens that have occurred are less likely; below 1, more.",
        "API-171",
    ),
    _extension(
        "no_repeat_ngram_size",
        _whole(0),
        "Takes 4 nats from each token that would repeat an n-gram of this size; it bans none.",
        "API-171",
        "API-174",
    ),
    _extension(
        "draft_temperature",
        _number(0, 2),
        "Changes what the drafter proposes, never the distribution of the answer.",
        "API-037",
    ),
)
_CONSTRAINTS = (
    _extension("structured_outputs", OBJECT, "Constrains the answer by exactly one of its members.", "API-125"),
    _extension("structured_outputs.regex", STRING, "The answer matches this expression in full.", "API-125", "API-128"),
    _extension("structured_outputs.choice", _list(STRING, minItems=1), "The answer is one of these.", "API-125"),
    _extension("structured_outputs.json", OBJECT, "The answer is JSON that follows this schema.", "API-125", "API-128"),
)
_WITHOUT_EFFECT = (
    _accepted("user", ANYTHING, "It is no session key either.", "API-030"),
    _accepted("metadata", ANYTHING, "Nothing is stored.", "API-030"),
    _accepted("store", ANYTHING, "Nothing is stored.", "API-030"),
    _accepted("service_tier", ANYTHING, "There is one tier.", "API-030", is_word=True),
    _accepted("prompt_cache_key", ANYTHING, "A cached prompt is found by its tokens.", "API-030"),
    _accepted("safety_identifier", ANYTHING, "Nothing is reported to anyone.", "API-030"),
    _accepted("prediction", ANYTHING, "What is drafted comes from the drafter.", "API-030"),
)
_TOOLS = (
    _honoured("tools", _list(_shape("Tool")), "Functions the model may call.", "API-104"),
    _honoured(
        "tool_choice",
        CHOICE,
        "`auto` leaves it to the model, `none` shows it no tools, `required` or a named function forces a call.",
        "API-116",
        "API-117",
        "API-118",
        is_word=True,
    ),
    _honoured("parallel_tool_calls", BOOLEAN, "`false` ends the answer at the first call.", "API-118", "API-119"),
)
_FORMAT = (
    _honoured("response_format", OBJECT, "What the answer has to be.", "API-125"),
    _honoured(
        "response_format.type",
        _one_of("text", "json_object", "json_schema"),
        "Any text, a JSON object, or JSON that follows a schema.",
        "API-125",
        "API-129",
        required=True,
    ),
    _honoured("response_format.json_schema", OBJECT, "Goes with the type `json_schema`.", "API-125"),
    _honoured(
        "response_format.json_schema.schema",
        OBJECT,
        "The schema the answer follows; a keyword that cannot be enforced is a 400 that names it.",
        "API-125",
        "API-128",
        required=True,
    ),
    _honoured("modalities", {"const": ["text"]}, "Answers are text.", "API-031"),
)
_EFFORT = _honoured(
    "reasoning_effort",
    EFFORT,
    "How long the model may think: a word sets a cap and tells the template; `none` and `off` turn thinking off.",
    "API-088",
    "API-091",
    "API-092",
    is_word=True,
)
_THINKING = (
    _extension(
        "max_reasoning_tokens",
        BUDGET,
        "Cap on the reasoning in tokens. A number wins over every word; 0 sets no cap.",
        "API-088",
        "API-090",
        "API-095",
    ),
    _extension("thinking_budget", BUDGET, _SAME_BUDGET, "API-088"),
    _extension("thinking_token_budget", BUDGET, _SAME_BUDGET, "API-088"),
    _extension("thinking_budget_tokens", BUDGET, _SAME_BUDGET, "API-088"),
    _extension("reasoning_budget", BUDGET, _SAME_BUDGET, "API-088"),
    _extension("enable_thinking", BOOLEAN, "Whether the model thinks; no budget by itself.", "API-087", "API-093"),
    _extension("reasoning", OBJECT, "Thinking as OpenRouter's clients ask for it.", "API-088", "API-091"),
    _extension("reasoning.max_tokens", BUDGET, _SAME_BUDGET, "API-088"),
    _extension("reasoning.effort", EFFORT, _SAME_EFFORT, "API-088"),
    _extension(
        "reasoning.enabled", BOOLEAN, "`false` turns thinking off, `true` caps it at 8,192.", "API-087", "API-089"
    ),
    _accepted("reasoning.exclude", ANYTHING, "The reasoning is returned all the same.", "API-079"),
    _extension("thinking", OBJECT, "Thinking as Anthropic's clients ask for it.", "API-088", "API-091"),
    _extension("thinking.budget_tokens", BUDGET, _SAME_BUDGET, "API-088"),
    _extension(
        "thinking.type",
        _one_of("enabled", "adaptive", "auto", "disabled"),
        "`disabled` turns thinking off, `enabled` alone caps it at 8,192.",
        "API-087",
        "API-089",
    ),
)
_TEMPLATE_OWN = "The server sets it from the request"
_TEMPLATE = (
    _extension("chat_template_kwargs", OBJECT, "Each member reaches the chat template.", "API-036"),
    _extension("chat_template_kwargs.enable_thinking", BOOLEAN, "Wins over `enable_thinking`.", "API-087"),
    _extension("chat_template_kwargs.reasoning_effort", EFFORT, "Wins over `reasoning_effort`.", "API-088"),
    _extension("chat_template_kwargs.thinking_budget", BUDGET, "The last of the numbers to count.", "API-088"),
    _refused("chat_template_kwargs.messages", NOTHING, f"{_TEMPLATE_OWN}.", "API-036"),
    _refused("chat_template_kwargs.tools", NOTHING, f"{_TEMPLATE_OWN}.", "API-036"),
    _refused("chat_template_kwargs.add_generation_prompt", NOTHING, f"{_TEMPLATE_OWN}.", "API-036"),
)
_SESSION = "Tells one session from another where no header does"

CHAT = (
    _honoured(
        "messages", _list(_shape("Message"), minItems=1), "The conversation.", "API-038", "API-039", required=True
    ),
    _MODEL,
    *_STREAM,
    _LIMIT,
    _honoured("max_completion_tokens", _whole(1), "The same; it wins over `max_tokens`.", "API-033"),
    *_SAMPLING,
    _honoured("logprobs", BOOLEAN, "Send the log-probabilities of the content's tokens.", "API-035"),
    _honoured("top_logprobs", _whole(0, 20), "Alternatives a token; needs `logprobs: true`.", "API-035"),
    _CHOICES,
    *_TOOLS,
    _EFFORT,
    *_FORMAT,
    *_SAMPLING_EXTENSIONS,
    *_THINKING,
    _extension(
        "reasoning_format",
        _one_of("tags", "reasoning_content", "both"),
        "Where the reasoning goes: into the content in `<think>` tags, into `reasoning_content`, or both.",
        "API-072",
        is_word=True,
    ),
    *_TEMPLATE,
    *_CONSTRAINTS,
    _extension("conversation_id", STRING, f"{_SESSION}.", "API-070"),
    _extension("session_id", STRING, f"{_SESSION}, after `conversation_id`.", "API-070"),
    *_WITHOUT_EFFECT,
    _refused("audio", NOTHING, "Answers are text.", "API-028"),
    _refused("functions", NOTHING, "Superseded by `tools`.", "API-028", instead="use tools"),
    _refused("function_call", NOTHING, "Superseded by `tool_choice`.", "API-028", instead="use tool_choice and tools"),
    _refused("web_search_options", NOTHING, "The server searches nothing.", "API-028"),
    _refused("verbosity", NOTHING, "The model has no such control.", "API-028"),
)
"""Fields of POST /v1/chat/completions."""

COMPLETIONS = (
    _honoured(
        "prompt",
        PROMPT,
        "Text, or token ids of the vocabulary; it reaches the model as sent. One prompt a request.",
        "API-046",
        "API-047",
        required=True,
    ),
    _MODEL,
    *_STREAM,
    _LIMIT,
    *_SAMPLING,
    _honoured("logprobs", _whole(0, 5), "Log-probabilities, with this many alternatives a token.", "API-035"),
    _CHOICES,
    _honoured("best_of", _whole(1, 16), "1 or equal to `n`; all choices are returned.", "API-032"),
    *_SAMPLING_EXTENSIONS,
    *_CONSTRAINTS,
    *_WITHOUT_EFFECT,
    _refused("suffix", NOTHING, "The model cannot fill in.", "API-028"),
    _refused("echo", {"enum": [False, None]}, "The prompt is not returned; `false` passes.", "API-028"),
)
"""Fields of POST /v1/completions."""
