"""Where the reasoning of an answer goes (API, section 11), and what that means for its stop strings (section 12)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from tandem.engine.text.reading.deltas import Blank, Content, Reasoning, ReasoningEnd, ReasoningStart

__all__ = [
    "PLAIN_CLIENTS",
    "PLAN_FORMATS",
    "ReasoningFormat",
    "Thought",
    "choose_format",
    "in_content",
    "stop_scope",
    "wants_blank_lines",
]

ReasoningFormat: TypeAlias = Literal["tags", "reasoning_content", "both"]
Thought: TypeAlias = ReasoningStart | Reasoning | ReasoningEnd | Blank
"""The deltas from the start of the reasoning to that of the answer."""

PLAIN_CLIENTS = frozenset({"openai-sdk", "curl", "anon"})
"""The kinds of a plain API client."""

PLAN_FORMATS: Mapping[str, ReasoningFormat] = MappingProxyType({"*": "reasoning_content", "hermes": "tags"})
"""The default of the map by client kind that decides under a plan (API-073)."""


def choose_format(
    asked: ReasoningFormat | None,
    server: ReasoningFormat,
    kind: str,
    *,
    wants_json: bool,
    plan_formats: Mapping[str, ReasoningFormat] | None = None,
) -> ReasoningFormat:
    """The format of one answer: what was `asked`, else that of a JSON answer, the server's, the client's kind.

    `server` is `--reasoning-format`, whose `tags` leaves the choice to the kind (API-072). `plan_formats` is the map of
    API-073 under a plan and None on the raw path. A JSON answer comes before the server's word, since with the
    reasoning beside it the content would be no JSON (API-130).
    """
    if asked is not None:
        return asked
    if wants_json:
        return "reasoning_content"
    if server != "tags":
        return server
    if plan_formats is not None:
        return plan_formats.get(kind, plan_formats.get("*", "tags"))
    return "reasoning_content" if kind in PLAIN_CLIENTS else "tags"


def stop_scope(format: ReasoningFormat, kind: str, *, under_plan: bool = False) -> Literal["all", "answer"]:
    """What stop strings are matched on: the answer under a plan (API-085), and on the raw path for a plain API client
    whose reasoning is apart (API-086); else the whole text.
    """
    apart = kind in PLAIN_CLIENTS and format == "reasoning_content"
    return "answer" if under_plan or apart else "all"


def wants_blank_lines(format: ReasoningFormat, kind: str, *, wants_json: bool) -> bool:
    """Whether a stream sends the blank lines after the reasoning though its content begins with the answer (API-076).

    Open WebUI needs a content delta there; a JSON answer is its own, and nothing else may be in its content (API-130).
    """
    return format == "reasoning_content" and kind == "open-webui" and not wants_json


def in_content(delta: Thought, format: ReasoningFormat) -> Content | None:
    """What a message's content has of the delta: in `tags` and `both` all there was, tags included (API-075)."""
    if format == "reasoning_content":
        return None
    match delta:
        case Reasoning(text, logprobs) | Blank(text, logprobs):
            return Content(text, logprobs)
        case ReasoningStart():
            return Content("<think>")
        case ReasoningEnd(logprobs):
            return Content("</think>", logprobs)
