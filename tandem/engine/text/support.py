"""What a chat template can carry, found out by rendering a few probe conversations once at the start (ENG-013).

Templates do not say what they support, and their sources are too varied to read; what a probe brings back is a fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tandem.engine.text.template import ChatTemplate, TemplateFailed

__all__ = ["TemplateSupport", "probe"]

ReasoningKey = Literal["reasoning_content", "reasoning", "thinking"]

_WORD = "tandemprobe"
_USER = {"role": "user", "content": "a"}
_TOOL = {
    "type": "function",
    "function": {"name": _WORD, "description": "b", "parameters": {"type": "object", "properties": {}}},
}
# Switches by which templates keep the reasoning of earlier turns, which several drop by themselves.
_KEEPERS: tuple[Mapping[str, Any], ...] = ({}, {"preserve_thinking": True}, {"clear_thinking": False})
_KEYS: tuple[ReasoningKey, ...] = ("reasoning_content", "reasoning", "thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSupport:
    """Capabilities of one chat template."""

    supports_tools: bool
    """Tools reach the prompt."""
    supports_calls: bool
    """An assistant message's `tool_calls` reach the prompt."""
    supports_tool_role: bool
    """A message of role `tool` reaches the prompt."""
    call_arguments: Literal["object", "text"] = "object"
    """The form in which a call's arguments are handed to the template."""
    text_arguments: bool = True
    """Arguments that are no object may be handed over as a string."""
    reasoning_key: ReasoningKey | None = None
    """The key under which the template reads an assistant message's reasoning; None: it does not."""
    reasoning_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Template arguments under which the reasoning of earlier turns is kept as well (ENG-179)."""

    @property
    def supports_reasoning(self) -> bool:
        """Reasoning in the history reaches the prompt."""
        return self.reasoning_key is not None

    @property
    def missing(self) -> tuple[str, ...]:
        """What the template has no place for, in words."""
        there = {"tools": self.supports_tools and self.supports_calls, "reasoning": self.supports_reasoning}
        return tuple(name for name, supported in there.items() if not supported)


def probe(template: ChatTemplate) -> TemplateSupport:
    """Find out what `template` carries."""
    call_arguments, text_arguments = _arguments(template)
    key, kwargs = _reasoning(template)
    return TemplateSupport(
        supports_tools=_WORD in _text(template, [_USER], tools=[_TOOL]),
        supports_calls=_WORD in _text(template, [_USER, _call({}), _result(), _USER]),
        supports_tool_role=_WORD in _text(template, [_USER, _call({}, name="c"), _result(_WORD), _USER]),
        call_arguments=call_arguments,
        text_arguments=text_arguments,
        reasoning_key=key,
        reasoning_kwargs=kwargs,
    )


def _arguments(template: ChatTemplate) -> tuple[Literal["object", "text"], bool]:
    def carries(arguments: Any, found: str) -> bool:
        text = _text(template, [_USER, _call(arguments, name="c"), _result(), _USER])
        # A template that prints an object as Python does would teach the model calls that are not JSON.
        return found in text and f"{{'{found}'" not in text

    as_object = carries({_WORD: "d"}, _WORD)
    as_text = carries(f"{_WORD} {{", f"{_WORD} {{")
    return ("text" if as_text and not as_object else "object"), as_text


def _reasoning(template: ChatTemplate) -> tuple[ReasoningKey | None, Mapping[str, Any]]:
    answers = {key: {"role": "assistant", "content": "e", key: _WORD} for key in _KEYS}
    for key, answer in answers.items():
        for kwargs in _KEEPERS:
            if _WORD in _text(template, [_USER, answer, _USER], kwargs=kwargs):
                return key, kwargs
    for key, answer in answers.items():
        if _WORD in _text(template, [_USER, answer]):
            return key, {}
    return None, {}


def _call(arguments: Any, *, name: str = _WORD) -> dict[str, Any]:
    call = {"id": "call_00001", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _result(content: str = "f") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_00001", "name": "c", "content": content}


def _text(template: ChatTemplate, messages: list[dict[str, Any]], **given: Any) -> str:
    try:
        return template.render(messages, **given)
    except TemplateFailed:
        return ""
