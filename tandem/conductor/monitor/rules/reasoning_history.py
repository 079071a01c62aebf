"""D1b: closes a reasoning that derives again what the session has thought since its last user message (MON-047)."""

from __future__ import annotations

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.checkpoints import newest_check
from tandem.conductor.monitor.events import BlockEvent, Task, View
from tandem.conductor.monitor.novelty import shared_share
from tandem.conductor.monitor.tier0 import register

__all__ = ["PARAMS", "reasoning_history"]

PARAMS = {
    "every": {"type": "integer", "minimum": 1, "default": 64, "description": "Tokens between two checks."},
    "min_tokens": {"type": "integer", "minimum": 1, "default": 2_048, "description": "Tokens at the first check."},
    "window": {"type": "integer", "minimum": 64, "default": 1_024, "description": "Newest tokens that are compared."},
    "share": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1,
        "default": 0.8,
        "description": "Share of the window's sequences of 8 tokens that were there before.",
    },
}


@register("reasoning_history", "SP1", PARAMS, tuple(PARAMS), "Closes a reasoning that repeats earlier ones.")
def reasoning_history(event: BlockEvent, task: Task, view: View) -> Action | None:
    params, earlier = task.params, view.session.reasoning
    messages = view.req.messages
    if not event.inside or not earlier or (messages and messages[-1].get("role") == "user"):
        return None
    tokens = newest_check(len(view.trace.reasoning), params["min_tokens"], params["every"])
    if tokens is None:
        return None
    window = min(params["window"], tokens)
    share = shared_share(view.trace.reasoning[tokens - window : tokens], window, earlier)
    if share < params["share"]:
        return None
    return Action(
        kind="CLOSE_REASONING",
        reason="loop(history)",
        score=share,
        detail={
            "arm": "history",
            "share": round(share, 3),
            "reasoning_tokens": event.reasoning_tokens,
            "position": event.position,
        },
    )
