"""The shapes in which clients speak about thinking."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.openai.samples import ask, refusal_of

BAD_THINKING: list[tuple[dict[str, Any], str]] = [
    *[
        ({name: value}, name)
        for name in ("max_reasoning_tokens", "thinking_budget", "thinking_token_budget", "reasoning_budget")
        for value in (-1, 1.5, True, "5")
    ],
    ({"thinking_budget_tokens": -1}, "thinking_budget_tokens"),
    ({"reasoning": "high"}, "reasoning"),
    ({"reasoning": {"max_tokens": -1}}, "reasoning.max_tokens"),
    ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
    ({"reasoning": {"enabled": 1}}, "reasoning.enabled"),
    ({"thinking": True}, "thinking"),
    ({"thinking": {"type": "on"}}, "thinking.type"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1.5}}, "thinking.budget_tokens"),
    ({"reasoning_effort": "extreme"}, "reasoning_effort"),
    ({"reasoning_effort": 5}, "reasoning_effort"),
    ({"enable_thinking": "no"}, "enable_thinking"),
    ({"chat_template_kwargs": {"enable_thinking": "no"}}, "chat_template_kwargs.enable_thinking"),
    ({"chat_template_kwargs": {"reasoning_effort": "x"}}, "chat_template_kwargs.reasoning_effort"),
    ({"chat_template_kwargs": {"thinking_budget": "x"}}, "chat_template_kwargs.thinking_budget"),
]


@pytest.mark.spec("API-091")
@pytest.mark.parametrize(("fields", "param"), BAD_THINKING)
def test_malformed_thinking_fields_are_named(fields: dict[str, Any], param: str) -> None:
    assert refusal_of(fields).param == param


@pytest.mark.spec("API-091")
@pytest.mark.parametrize("word", ["none", "OFF", "Minimal", "low", "medium", "HIGH", "xhigh", "max"])
def test_effort_words_in_any_case(word: str) -> None:
    assert ask(reasoning_effort=word).template_kwargs == ({"enable_thinking": False} if word in ("none", "OFF") else {})


@pytest.mark.spec("API-087")
@pytest.mark.parametrize(
    ("fields", "thinks"),
    [
        ({}, None),
        ({"enable_thinking": True}, True),
        ({"enable_thinking": False}, False),
        ({"enable_thinking": True, "reasoning_effort": "none"}, True),
        ({"enable_thinking": False, "chat_template_kwargs": {"enable_thinking": True}}, True),
        ({"enable_thinking": False, "chat_template_kwargs": {"enable_thinking": None}}, False),
        ({"reasoning": {"effort": "none"}}, False),
        ({"reasoning": {"enabled": False}}, False),
        ({"reasoning": {"enabled": True, "exclude": True}}, None),
        ({"thinking": {"type": "disabled"}}, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, None),
        ({"thinking": {"type": "disabled"}, "enable_thinking": True}, True),
        ({"chat_template_kwargs": {"reasoning_effort": "off"}}, False),
        ({"max_reasoning_tokens": 0}, None),
        ({"reasoning_effort": None, "reasoning": None, "thinking": None}, None),
    ],
)
def test_the_thinking_switch(fields: dict[str, Any], thinks: bool | None) -> None:
    assert ask(**fields).template_kwargs.get("enable_thinking") is thinks


@pytest.mark.spec("API-036")
def test_template_kwargs_reach_the_template_as_sent() -> None:
    sent = {"style": [1, {"a": None}], "reasoning_effort": "low", "other": None}
    assert ask(chat_template_kwargs=sent).template_kwargs == sent
    assert ask(chat_template_kwargs={"enable_thinking": None, "messages": None}).template_kwargs == {}
