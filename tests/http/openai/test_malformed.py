"""Whatever JSON a client sends, the parsers answer with a request or with a 400 that names a field."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.http.openai.decode import decode_body
from tandem.http.openai.errors import ApiError
from tandem.http.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS
from tandem.http.openai.requests import parse_chat, parse_completion
from tests.http.openai.samples import is_token, tool

PARSERS: dict[str, Callable[[dict[str, Any], Callable[[int], bool]], object]] = {
    "chat": parse_chat,
    "completion": parse_completion,
}

WHOLE: dict[str, dict[str, Any]] = {
    "chat": {
        "model": "M",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "r",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}],
            },
            {"role": "tool", "content": "t", "tool_call_id": "c", "name": "f"},
        ],
        "tools": [tool()],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
        "max_completion_tokens": 5,
        "temperature": 1,
        "top_p": 0.5,
        "stop": ["a"],
        "seed": 1,
        "logit_bias": {"5": 1},
        "logprobs": True,
        "top_logprobs": 2,
        "chat_template_kwargs": {"enable_thinking": False},
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "reasoning": {"effort": "low", "max_tokens": 5},
        "thinking": {"type": "enabled", "budget_tokens": 4},
    },
    "completion": {
        "model": "M",
        "prompt": [[1, 2, 3]],
        "stream": False,
        "n": 2,
        "best_of": 2,
        "stop": "x",
        "logprobs": 3,
        "logit_bias": {"5": 1},
        "top_k": 5,
        "repetition_penalty": 1.1,
    },
}

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([10**30, 2**63, -1, 0, 1])
scalars = (
    st.none() | st.booleans() | numbers | st.text(max_size=5) | st.sampled_from(["text", "user", "function", "none"])
)
keys = st.text(max_size=5) | st.sampled_from(
    ["role", "content", "type", "text", "function", "name", "arguments", "tool_calls", "schema", "regex", "5"]
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)


def refusal_of(route: str, body: dict[str, Any]) -> ApiError | None:
    raw = json.dumps(body).encode()
    try:
        PARSERS[route](decode_body(raw), is_token)
    except ApiError as refusal:
        return refusal
    return None


def check(route: str, body: dict[str, Any]) -> None:
    refusal = refusal_of(route, body)
    if refusal is not None:
        assert refusal.status == 400
        assert refusal.param
        assert json.loads(refusal.body())["error"]["param"] == refusal.param


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *[found for key, child in children for found in paths(child, (*path, key))]]


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A valid body with one or two values replaced or removed anywhere in it."""
    route = draw(st.sampled_from(sorted(WHOLE)))
    body = copy.deepcopy(WHOLE[route])
    for _ in range(draw(st.integers(1, 2))):
        *parents, last = draw(st.sampled_from(paths(body)[1:]))
        holder: Any = body
        for key in parents:
            holder = holder[key]
        if draw(st.booleans()):
            holder[last] = draw(values)
        else:
            del holder[last]
        if not body:
            break
    return route, body


@pytest.mark.parametrize("route", sorted(WHOLE))
def test_the_unmutated_bodies_are_served(route: str) -> None:
    PARSERS[route](WHOLE[route], is_token)


@pytest.mark.spec("API-028")
@settings(max_examples=400)
@given(mutated())
def test_mutations_are_served_or_named(case: tuple[str, dict[str, Any]]) -> None:
    check(*case)


@pytest.mark.spec("API-028")
@settings(max_examples=300)
@given(
    st.sampled_from(sorted(PARSERS)),
    st.dictionaries(st.sampled_from(sorted({*CHAT_FIELDS, *COMPLETION_FIELDS})), values, max_size=4),
    st.booleans(),
)
def test_random_bodies_are_served_or_named(route: str, body: dict[str, Any], whole: bool) -> None:
    check(route, {**(WHOLE[route] if whole else {}), **body})
