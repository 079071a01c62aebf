"""C1: calls that destroy or publish, known by patterns (MON-084, MON-086).

A pattern is held against texts as the tool gets them, so that no escape of JSON hides anything: of a shell the command,
a list of words joined by blanks, of a writer the path and the content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.call_findings import REGENERATIONS, about, arguments_of, rewritten
from tandem.conductor.monitor.events import Task, ToolCallEvent, View
from tandem.conductor.monitor.stopped_calls import shown_name
from tandem.conductor.monitor.tier0 import register, text
from tandem.conductor.monitor.tool_effects import is_shell, is_writer
from tandem.conductor.tool_arguments import COMMANDS, CONTENTS, PATHS, declared, texts_in

__all__ = ["LOOKED_AT", "risky_call"]

LOOKED_AT: Final = 16_384
"""Characters of a text that patterns are held against, from its beginning."""
OF_ALL: Final = 65_536
"""Of the calls of one answer together: patterns are held against them between two rounds of everybody's decoding."""
FEWEST: Final = 1_024
"""Of each call, however many there are."""
PATTERN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,31}$"},
        "tool": {"enum": ["shell", "write"], "description": "What kind of tool: one that runs, or one that writes."},
        "match": {"type": "string", "format": "regex", "minLength": 1},
        "words": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "description": "Without one of these, in any case, it is not tried: a search for words costs nothing.",
        },
    },
    "required": ["id", "tool", "match"],
    "additionalProperties": False,
}


def holds(task: Task, view: View) -> bool:
    """A tool is offered that a pattern could speak of."""
    return any(is_shell(tool) or is_writer(tool) for tool in view.req.tools)


@register(
    "risky_call",
    "SP3",
    params={
        "patterns": {"type": "array", "items": PATTERN, "description": "Calls that are held back."},
        "reminder": {**text("rule", "tool"), "description": "What the model reads in place of a result."},
        "regenerations": REGENERATIONS,
    },
    required=("patterns", "reminder", "regenerations"),
    doc="Holds back calls that destroy or publish.",
    holds=holds,
)
def risky_call(event: ToolCallEvent, task: Task, view: View) -> Action | None:
    if not event.final or event.why is not None:
        return None
    texts = [(kind, each, each.lower()) for kind, each in _texts(event, view)]
    for pattern in task.params["patterns"] if texts else ():
        search, words = re.compile(pattern["match"]).search, [word.lower() for word in pattern.get("words", ("",))]
        if any(
            kind == pattern["tool"] and any(word in lower for word in words) and search(each)
            for kind, each, lower in texts
        ):
            rule = pattern["id"]
            reminder = task.params["reminder"].format(rule=rule, tool=shown_name(event.name))
            return rewritten(task, view, f"risky({rule})", reminder, about(event, rule=rule))
    return None


def _texts(event: ToolCallEvent, view: View) -> Iterator[tuple[str, str]]:
    """What the call would run or write, by the kind of its tool."""
    tool = declared(view.req.tools, event.name)
    most = min(LOOKED_AT, max(FEWEST, OF_ALL // max(1, len(event.others))))
    kinds = () if tool is None else (("shell", is_shell(tool), COMMANDS), ("write", is_writer(tool), PATHS | CONTENTS))
    for kind, is_kind, names in kinds:
        if is_kind:
            yield from ((kind, each[:most]) for each in texts_in(arguments_of(event), names))
