"""A1: stops a call whose arguments repeat themselves, and what the next requests hear of it (MON-101 to MON-117).

Its mode is `--argloop` (MON-103). What a stopped call leaves in the session counts for one request; from then on the
markers that the history cut has put into the client's messages tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.checkpoints import first_pieces, newest_check
from tandem.conductor.monitor.events import RequestEvent, Task, ToolCallEvent, View
from tandem.conductor.monitor.periods import FORM, Form, Period, repetition, shrinkage
from tandem.conductor.monitor.stopped_calls import FRESH, Stop, shown_name, stops_since_user
from tandem.conductor.monitor.tier0 import register, text
from tandem.conductor.router.history import plain_name

__all__ = ["PARAMS", "argument_loop", "argument_retry"]

TEXTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "stopped": {**text("tool", "tokens", "unit", "copies"), "description": "What the client reads."},
    "stopped_size": {**text("tool", "tokens"), "description": "The same, where no copies are exact."},
    "marker": {
        **text("tool", "unit", "copies", "start", "left_out", needed=("tool", "unit")),
        "description": "In place of the repetition where the client sends the call back.",
    },
    "note": {**text("tool", "unit"), "description": "To the request behind a stopped call."},
    "note_again": {**text("tool", "unit"), "description": "Where the same repetition was stopped before."},
    "retries": {**text("tool", "count", "hint"), "description": "In place of one more attempt."},
    "hint": {**text(), "description": "{hint}, where the client has turned thinking off; else it is empty."},
}
PARAMS: dict[str, Any] = {
    "first": {"type": "integer", "minimum": 1, "default": 1_024, "description": "Block tokens at the first check."},
    "every": {"type": "integer", "minimum": 1, "default": 64, "description": "Tokens between two checks."},
    "forms": {
        "type": "array",
        "items": FORM,
        "description": "What a repetition is: any of these.",
        "default": [
            {"tokens": 1_024, "copies": 6, "longest": 4_096},
            {"tokens": 384, "copies": 3, "shortest": 256, "longest": 4_096},
        ],
    },
    "size": {
        "type": "object",
        "description": "What is endless without being exact.",
        "properties": {
            "tokens": {"type": "integer", "minimum": 1, "description": "A block of more tokens,"},
            "longest": {"type": "number", "description": "of more than so many times the longest message,"},
            "shrinks": {"type": "number", "description": "whose newest bytes zlib makes so many times shorter,"},
            "newest": {"type": "integer", "minimum": 1, "description": "that many of them."},
        },
        "required": ["tokens", "longest", "shrinks", "newest"],
        "additionalProperties": False,
        "default": {"tokens": 32_768, "longest": 3, "shrinks": 16, "newest": 16_384},
    },
    **TEXTS,
    "same_stops": {
        "type": "integer",
        "minimum": 1,
        "default": 2,
        "description": "Equal stops before no more is tried.",
    },
    "stops": {"type": "integer", "minimum": 1, "default": 3, "description": "Stops of one tool before the same."},
}
CHARACTERS = 3.5
"""Of a token, in a message whose tokens nobody counts."""


def argument_retry(event: RequestEvent, task: Task, view: View) -> Action | None:
    """SP4: a note behind a stopped call, and no generation at all once it has been stopped too often."""
    params, kept = task.params, view.kept(task.id)
    stops = stops_since_user(event.messages, params["marker"])
    same, of_tool = _streaks(stops)
    if stops and (same >= params["same_stops"] or of_tool >= params["stops"]):
        hint = params["hint"] if event.client_thinking_off else ""
        return Action(
            kind="GIVE_UP",
            reason=f"tool_arg_loop_retries({of_tool})",
            text=params["retries"].format(count=of_tool, tool=stops[-1].tool, hint=hint),
            detail={"tool": plain_name(stops[-1].tool), "unit": stops[-1].unit, "stops": of_tool},
        )
    if not event.tools:
        return None
    if not stops and kept.get(FRESH):
        stops, same = (Stop(kept["tool"], kept["unit"]),), kept["count"]
    if not stops:
        # The turn before ended without a stop: what comes next is no repetition of the last one.
        return Action(kind="PASS", delta={"count": 0}) if kept.get("count") else None
    wording: str = params["note_again" if same > 1 else "note"]
    return Action(
        kind="PROMPT_TAIL_NOTE",
        reason="tool_arg_loop",
        text=wording.format(tool=stops[-1].tool, unit=stops[-1].unit),
        detail={"tool": plain_name(stops[-1].tool), "unit": stops[-1].unit, "again": same > 1},
        delta={FRESH: False},
    )


@register(
    "argument_loop",
    "SP3",
    PARAMS,
    tuple(PARAMS),
    doc="Stops a call whose arguments repeat themselves.",
    open_blocks=True,
    at_request=argument_retry,
)
def argument_loop(event: ToolCallEvent, task: Task, view: View) -> Action | None:
    block, params = view.trace.block, task.params
    if event.final or block is None:
        return None
    tokens = newest_check(len(block.ids), params["first"], params["every"])
    if tokens is None:
        return None
    pieces = first_pieces(block.pieces, len(block.ids), tokens)
    tool, detail = (
        shown_name(event.name),
        {"tool": plain_name(event.name), "tokens": tokens, "stop_detail": "tool_arg_loop"},
    )
    period = repetition(pieces, [Form(**form) for form in params["forms"]])
    if period is not None:
        return _stopped(period, tool, detail, params["stopped"], view.kept(task.id))
    ratio = _endless(pieces, tokens, params["size"], view.req.messages)
    if ratio is None:
        return None
    return Action(
        kind="GIVE_UP",
        reason="tool_arg_loop(size)",
        text=params["stopped_size"].format(tool=tool, tokens=tokens),
        score=ratio,
        detail={**detail, "rule": "size", "ratio": round(ratio, 1)},
        delta={"tool": tool, "unit": 0, "count": 1, FRESH: True},
    )


def _stopped(period: Period, tool: str, detail: dict[str, Any], wording: str, kept: Mapping[str, Any]) -> Action:
    copies = int(period.copies)
    again = (kept.get("tool"), kept.get("unit")) == (tool, period.unit)
    return Action(
        kind="GIVE_UP",
        reason="tool_arg_loop(periodic)",
        text=wording.format(tool=tool, tokens=detail["tokens"], unit=period.unit, copies=copies),
        score=period.copies,
        detail={**detail, "rule": "periodic", "unit": period.unit, "copies": copies},
        delta={
            "tool": tool,
            "unit": period.unit,
            "count": kept.get("count", 0) + 1 if again else 1,
            FRESH: True,
        },
    )


def _endless(
    pieces: Sequence[str], tokens: int, size: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]
) -> float | None:
    """How many times shorter zlib makes the end of a block that is too long for what was asked."""
    if tokens <= size["tokens"] or tokens <= size["longest"] * max(map(_length, messages), default=0) / CHARACTERS:
        return None
    ratio = shrinkage("".join(pieces[-size["newest"] :]), size["newest"])
    return ratio if ratio >= size["shrinks"] else None


def _length(message: Mapping[str, Any]) -> int:
    """Characters of a message's text."""
    content = message.get("content")
    if isinstance(content, str):
        return len(content)
    return sum(len(part.get("text") or "") for part in content or ())


def _streaks(stops: Sequence[Stop]) -> tuple[int, int]:
    """How many of the newest stops are equal, and how many are of one tool."""
    same = next((at for at, stop in enumerate(reversed(stops)) if stop != stops[-1]), len(stops))
    of_tool = next((at for at, stop in enumerate(reversed(stops)) if stop.tool != stops[-1].tool), len(stops))
    return same, of_tool
