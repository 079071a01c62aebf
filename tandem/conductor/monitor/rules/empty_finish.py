"""E1: a turn that the model ends without an answer (MON-052 to MON-056).

- A: inside the reasoning. The block is closed in the model's place, and the answer follows.
- B: behind it, or without one. A hidden turn asks for the answer.
- C: whole calls stand at the end of the reasoning. Their own tokens are forwarded as the answer.
"""

from __future__ import annotations

from typing import Any, Final

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import FinishEvent, Task, View
from tandem.conductor.monitor.reasoned import Reasoned
from tandem.conductor.monitor.tier0 import register
from tandem.conductor.router.history import plain_name

__all__ = ["empty_finish"]

_CALLS: Final = "empty(C)"
NAMED: Final = 16
"""Calls whose tools the row names."""


@register(
    "empty_finish",
    "SP2",
    params={"tries": {"type": "integer", "minimum": 1, "maximum": 4}},
    required=("tries",),
    doc="The model ends its turn and has answered nothing.",
)
def empty_finish(event: FinishEvent, task: Task, view: View) -> Action | None:
    """Go on with it, `tries` times; then the turn is given up, so that it does not end in silence."""
    if event.has_calls or event.answer.strip():
        return None
    before = [each for each in view.done if each.task == task.id and each.acted == "CONTINUE_HIDDEN"]
    reasoned = _reasoned(event, view)
    # Calls that were forwarded and came to nothing would come to nothing again.
    if reasoned is not None and all(each.reason != _CALLS for each in before):
        reason = _CALLS
    else:
        reason, reasoned = "empty(A)" if event.inside else "empty(B)", None
    detail: dict[str, Any] = {"try": len(before) + 1, "reasoning_tokens": len(view.trace.reasoning)}
    if len(before) >= task.params["tries"]:
        return Action(kind="GIVE_UP", reason=reason, detail=detail)
    if reasoned is not None:
        detail |= {"call_count": len(reasoned.names), "tools": [plain_name(name) for name in reasoned.names[:NAMED]]}
        return Action(kind="CONTINUE_HIDDEN", reason=reason, text="", ids=reasoned.ids, detail=detail)
    text = view.texts.get("vendor_close") if event.inside else view.texts["nudge_again" if before else "nudge"]
    return Action(kind="CONTINUE_HIDDEN", reason=reason, text=text, detail=detail)


def _reasoned(event: FinishEvent, view: View) -> Reasoned | None:
    """The calls of case C. A constraint decides by itself what an answer begins with."""
    has_tools = view.req.tools and view.req.tool_choice != "none"
    return event.reasoned if has_tools and not view.req.constrained else None
