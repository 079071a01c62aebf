"""The field table of the two completion routes: what becomes of each field a client may send (API, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

from tandem.http.openai.errors import invalid

__all__ = ["CHAT_FIELDS", "COMPLETION_FIELDS", "THINKING_FIELDS", "Disposition", "refuse_fields", "shown_fields"]


class Disposition(Enum):
    """What the server does with a field. A field outside the table passes without effect (API-029)."""

    HONOURED = auto()
    ACCEPTED = auto()
    """Accepted without effect on any token."""
    REFUSED = auto()
    """A 400 that names the field."""
    EXTENSION = auto()
    """Read, though OpenAI's API does not have it."""


THINKING_FIELDS = frozenset(
    {
        "enable_thinking",
        "max_reasoning_tokens",
        "reasoning",
        "reasoning_budget",
        "reasoning_effort",
        "thinking",
        "thinking_budget",
        "thinking_budget_tokens",
        "thinking_token_budget",
    }
)
"""The thinking shapes of section 13, by their top-level names; `chat_template_kwargs` holds the rest of them."""

_ACCEPTED = "user metadata store service_tier prompt_cache_key safety_identifier prediction"


def _table(honoured: str, refused: str, extensions: str) -> Mapping[str, Disposition]:
    rows = (
        (extensions, Disposition.EXTENSION),
        (honoured, Disposition.HONOURED),
        (_ACCEPTED, Disposition.ACCEPTED),
        (refused, Disposition.REFUSED),
    )
    return MappingProxyType({name: disposition for names, disposition in rows for name in names.split()})


CHAT_FIELDS = _table(
    honoured=(
        "messages model stream stream_options max_tokens max_completion_tokens stop temperature top_p seed "
        "presence_penalty frequency_penalty logit_bias logprobs top_logprobs n tools tool_choice parallel_tool_calls "
        "reasoning_effort response_format modalities"
    ),
    refused="audio functions function_call web_search_options verbosity",
    extensions=(
        "top_k min_p repetition_penalty no_repeat_ngram_size reasoning_format draft_temperature chat_template_kwargs "
        "structured_outputs conversation_id session_id " + " ".join(sorted(THINKING_FIELDS))
    ),
)

COMPLETION_FIELDS = _table(
    honoured=(
        "prompt model stream stream_options max_tokens stop temperature top_p seed presence_penalty frequency_penalty "
        "logit_bias logprobs n best_of"
    ),
    refused="suffix echo",
    extensions="top_k min_p repetition_penalty no_repeat_ngram_size draft_temperature structured_outputs",
)

_INSTEAD: Mapping[str, str] = MappingProxyType({"functions": "use tools", "function_call": "use tool_choice and tools"})


def refuse_fields(body: Mapping[str, Any], table: Mapping[str, Disposition]) -> None:
    """Raise a 400 for the first refused field that is present; null counts as absent (API-028)."""
    for name, value in body.items():
        if value is None or table.get(name) is not Disposition.REFUSED:
            continue
        if name == "echo" and value is False:
            continue
        raise invalid(name, f"{name} is not supported; {_INSTEAD.get(name, 'leave it out')}")


_KNOWN = CHAT_FIELDS.keys() | COMPLETION_FIELDS.keys()
_WORDS = frozenset({"model", "reasoning_effort", "reasoning_format", "service_tier", "tool_choice"})
"""Fields whose strings are names, never a client's text."""


def shown_fields(body: Mapping[str, Any]) -> str:
    """The fields of a request as `--log-request-keys` logs them: names, numbers, switches and known words.

    Of anything that could hold text only the kind is shown; a field outside the tables is counted, since its name is
    the client's.
    """
    shown = [f"{name}={_shown(name, value)}" for name, value in body.items() if name in _KNOWN]
    others = len(body) - len(shown)
    return " ".join([*shown, f"others={others}"] if others else shown)


def _shown(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str) and name in _WORDS and len(value) <= 100:
        return repr(value)
    return type(value).__name__
