"""What the checks of calls have in common: the words of a call, and what becomes of a finding (MON-084 to MON-097)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import Task, ToolCallEvent, View
from tandem.conductor.monitor.tier0 import overridable
from tandem.conductor.router.history import plain_name

__all__ = ["REGENERATIONS", "about", "arguments_of", "rewritten", "words_in"]

REGENERATIONS: Final = overridable(
    {"type": "integer", "minimum": 0, "maximum": 10, "description": "How often a call is written again."}
)
LONGEST: Final = 524_288
"""Characters of arguments that are read."""


def about(event: ToolCallEvent, **more: Any) -> dict[str, Any]:
    """What the row says of a call: nothing of its arguments."""
    return {"tool": plain_name(event.name), "index": event.index, **more}


def arguments_of(event: ToolCallEvent) -> Mapping[str, Any]:
    """Empty where they are no JSON object."""
    try:
        value = json.loads(event.arguments) if len(event.arguments) <= LONGEST else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def words_in(value: Any) -> Iterator[str]:
    """Every text in the arguments, however deep; a list of nothing but texts is one."""
    pending = [value]
    while pending:
        match pending.pop():
            case str() as text:
                yield text
            case dict() as found:
                pending += reversed(found.values())
            case list() as found if found and all(isinstance(each, str) for each in found):
                yield " ".join(found)
            case list() as found:
                pending += reversed(found)
            case _:
                pass


def rewritten(task: Task, view: View, reason: str, text: str, detail: Mapping[str, Any]) -> Action:
    """The call is to be written again, and once that was done `regenerations` times the turn ends."""
    if view.acts_of(task.id) >= task.params["regenerations"]:
        return Action(kind="GIVE_UP", reason=reason, detail=detail)
    return Action(kind="REGENERATE_CALL", reason=reason, text=text, detail=detail)
