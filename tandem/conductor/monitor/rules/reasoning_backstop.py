"""D2: the longest reasoning that is let go on, whatever its effort (MON-045, MON-048).

Where the task acts, the decode loop closes the reasoning at the cap itself (MON-038), and this rule never sees it
longer. In shadow it says where that would have been.
"""

from __future__ import annotations

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import BlockEvent, Task, View
from tandem.conductor.monitor.tier0 import register

__all__ = ["PARAMS", "reasoning_backstop"]

PARAMS = {"max_tokens": {"type": "integer", "minimum": 1, "default": 32_768, "description": "Cap in tokens."}}


@register("reasoning_backstop", "SP1", PARAMS, ("max_tokens",), "Closes a reasoning that is too long.")
def reasoning_backstop(event: BlockEvent, task: Task, view: View) -> Action | None:
    cap: int = task.params["max_tokens"]
    if not event.inside or event.reasoning_tokens < cap:
        return None
    return Action(
        kind="CLOSE_REASONING",
        reason=f"backstop({cap})",
        detail={"reasoning_tokens": event.reasoning_tokens, "position": event.position},
    )
