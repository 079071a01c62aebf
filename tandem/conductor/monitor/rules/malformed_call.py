"""C4: calls that cannot be run as they are written (MON-078, MON-079, MON-093, MON-094).

What one change certainly mends is mended; everything else the model writes again.
"""

from __future__ import annotations

from typing import Any

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.call_findings import REGENERATIONS, about, rewritten
from tandem.conductor.monitor.call_repair import repaired
from tandem.conductor.monitor.call_schemas import fault
from tandem.conductor.monitor.events import Task, ToolCallEvent, View
from tandem.conductor.monitor.stopped_calls import shown_name
from tandem.conductor.monitor.tier0 import register, text
from tandem.conductor.tool_arguments import declared, mapping

__all__ = ["malformed_call"]


def holds(task: Task, view: View) -> bool:
    """There are tools to call."""
    return bool(view.req.tools)


@register(
    "malformed_call",
    "SP3",
    params={
        "reminder": {**text("tool", "why"), "description": "What the model reads in place of a result."},
        "regenerations": REGENERATIONS,
        "cut": {
            "enum": ["give_up", "pass"],
            "description": "What becomes of a block that the token limit or the deadline cut.",
        },
    },
    required=("reminder", "regenerations", "cut"),
    doc="Has calls that cannot be run mended or written again.",
    holds=holds,
)
def malformed_call(event: ToolCallEvent, task: Task, view: View) -> Action | None:
    if not event.final:
        return None
    if event.why is not None:
        return _block(event, task, view, event.why)
    if not event.offered:
        return _again(event, task, view, "unknown_tool", "there is no such tool")
    found = fault(event.arguments, event.schema, len(event.others))
    if found is None:
        return None
    if found.mended is not None:
        detail = _detail(event, found.finding, reason=found.keyword)
        return Action(
            kind="REPAIR_CALL",
            reason=f"malformed({found.finding})",
            detail={**detail, "arguments": found.mended},
        )
    return _again(event, task, view, found.finding, found.why, reason=found.keyword)


def _block(event: ToolCallEvent, task: Task, view: View, why: str) -> Action:
    """A block that the codec could not read."""
    if not event.complete and event.ended == "stop":
        return Action(kind="PASS", reason="cut_by_stop", detail=_detail(event, "cut"))
    if not event.complete and event.ended is not None:
        kind: Any = "PASS" if task.params["cut"] == "pass" else "GIVE_UP"
        return Action(kind=kind, reason=f"cut({event.ended})", detail=_detail(event, "cut", reason=why))
    tools = view.req.tools
    calls = repaired(event.text, tools)
    if calls and all(
        (tool := declared(tools, call.name)) is not None
        and fault(call.arguments, mapping(tool["function"]).get("parameters"), len(calls)) is None
        for call in calls
    ):
        made = [{"name": call.name, "arguments": call.arguments} for call in calls]
        detail = _detail(event, "unparsable", reason=why)
        return Action(kind="REPAIR_CALL", reason="malformed(unparsable)", detail={**detail, "calls": made})
    return _again(event, task, view, "unparsable", why)


def _again(event: ToolCallEvent, task: Task, view: View, finding: str, why: str, reason: str | None = None) -> Action:
    reminder = task.params["reminder"].format(tool=shown_name(event.name), why=why)
    detail = _detail(event, finding, reason=why if reason is None else reason)
    return rewritten(task, view, f"malformed({finding})", reminder, detail)


def _detail(event: ToolCallEvent, finding: str, **more: Any) -> dict[str, Any]:
    return about(event, finding=finding, length=len(event.text or event.arguments), **more)
