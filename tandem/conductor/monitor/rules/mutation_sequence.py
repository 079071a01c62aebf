"""C5: of several calls that change things, each is to be sent when the one before has its result (MON-095 to MON-100).

It judges order, so it never ends a turn: where calls were written again, or cannot be, they go.
"""

from __future__ import annotations

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.call_findings import REGENERATIONS, about
from tandem.conductor.monitor.events import Task, ToolCallEvent, View
from tandem.conductor.monitor.stopped_calls import shown_name
from tandem.conductor.monitor.tier0 import register, text
from tandem.conductor.monitor.tool_effects import changing, effect_of

__all__ = ["mutation_sequence"]


def holds(task: Task, view: View) -> bool:
    """A tool is offered that changes something (MON-100)."""
    return any(effect_of(tool) is not None for tool in view.req.tools)


@register(
    "mutation_sequence",
    "SP3",
    params={
        "reminder": {**text("tools"), "description": "What the model reads in place of the results."},
        "regenerations": REGENERATIONS,
    },
    required=("reminder", "regenerations"),
    doc="Has calls that change things sent one at a time.",
    holds=holds,
    lets_go=True,
)
def mutation_sequence(event: ToolCallEvent, task: Task, view: View) -> Action | None:
    # Once an answer, at its first item: the set is looked through as a whole, and what is found is said of all of it.
    if not event.final or (event.others and event.others[0].index != event.index):
        return None
    calls = [other for other in event.others or (event,) if other.why is None]
    changes = [calls[at] for at in changing(view.req.tools, [call.name for call in calls])]
    if len(changes) < 2:
        return None
    done, detail = view.acts_of(task.id), about(changes[1], mutations=len(changes))
    if event.ended is not None:
        return Action(kind="PASS", reason=f"ended(mutations={len(changes)})", detail=detail)
    if done >= task.params["regenerations"]:
        return Action(kind="PASS", reason=f"fallback(regenerations={done})", detail=detail)
    names = ", ".join(dict.fromkeys(shown_name(call.name) for call in changes))
    return Action(
        kind="REGENERATE_CALL",
        reason=f"sequence(mutations={len(changes)})",
        text=task.params["reminder"].format(tools=names),
        detail=detail,
    )
