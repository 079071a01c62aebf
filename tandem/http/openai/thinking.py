"""The shapes in which clients speak about thinking: all checked, and read into one switch (API, section 13).

The numbers and words set no budget yet; what they must look like is settled here, so that a client learns of a wrong
one at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem.http.openai.checks import as_bool, as_int, as_object, as_word

__all__ = ["WORDS", "read_thinking"]

WORDS = ("none", "off", "minimal", "low", "medium", "high", "xhigh", "max")
OFF = ("none", "off")
TYPES = ("enabled", "adaptive", "auto", "disabled")
NUMBERS = (
    "max_reasoning_tokens",
    "thinking_budget",
    "thinking_token_budget",
    "thinking_budget_tokens",
    "reasoning_budget",
)


def read_thinking(body: Mapping[str, Any], template_kwargs: Mapping[str, Any]) -> bool | None:
    """Whether the client wants thinking on or off; None where it says nothing about that (API-087).

    Checks every shape and raises a 400 that names the field of a wrong one (API-091).
    """
    reasoning = as_object(body.get("reasoning"), "reasoning") or {}
    thinking = as_object(body.get("thinking"), "thinking") or {}
    for name in NUMBERS:
        as_int(body.get(name), name, low=0)
    as_int(reasoning.get("max_tokens"), "reasoning.max_tokens", low=0)
    as_int(thinking.get("budget_tokens"), "thinking.budget_tokens", low=0)
    as_int(template_kwargs.get("thinking_budget"), "chat_template_kwargs.thinking_budget", low=0)
    words = (
        as_word(template_kwargs.get("reasoning_effort"), "chat_template_kwargs.reasoning_effort", WORDS),
        as_word(body.get("reasoning_effort"), "reasoning_effort", WORDS),
        as_word(reasoning.get("effort"), "reasoning.effort", WORDS),
    )
    enabled = as_bool(reasoning.get("enabled"), "reasoning.enabled")
    kind = as_word(thinking.get("type"), "thinking.type", TYPES)
    first = as_bool(template_kwargs.get("enable_thinking"), "chat_template_kwargs.enable_thinking")
    second = as_bool(body.get("enable_thinking"), "enable_thinking")
    if first is not None or second is not None:
        return second if first is None else first
    if enabled is False or kind == "disabled" or any(word in OFF for word in words):
        return False
    return None
