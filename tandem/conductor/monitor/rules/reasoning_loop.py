"""D1: closes a reasoning that repeats itself, before it uses up the answer's room (MON-045, MON-046)."""

from __future__ import annotations

from typing import Any

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import BlockEvent, Task, View
from tandem.conductor.monitor.reasoning_arms import arm_of
from tandem.conductor.monitor.tier0 import register

__all__ = ["PARAMS", "reasoning_loop"]


def _whole(default: int, description: str, least: int = 1) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "default": default, "description": description}


def _share(default: float, description: str) -> dict[str, Any]:
    return {"type": "number", "minimum": 0, "maximum": 1, "default": default, "description": description}


def _arm(description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        "default": {name: each["default"] for name, each in properties.items()},
    }


PARAMS = {
    "every": _whole(64, "Tokens between two checks."),
    "min_tokens": _whole(512, "Tokens at the first check."),
    "confirm": _whole(2, "Checks in succession at which an arm has to fire."),
    "period": _arm(
        "Copies of one sequence of tokens.",
        window=_whole(256, "Newest tokens that consist of them.", 2),
        unit=_whole(64, "Longest sequence, in tokens."),
        copies=_whole(4, "Fewest copies.", 2),
    ),
    "novelty": _arm(
        "Hardly anything is new.",
        window=_whole(1_024, "Newest tokens.", 64),
        sequence=_whole(4, "Tokens in a sequence.", 2),
        memory=_whole(4_096, "Tokens ahead of the window in which a sequence may have stood."),
        often=_whole(3, "A sequence that has stood so often before is not new."),
        new=_share(0.1, "Below this share of new sequences it fires."),
    ),
    "drift": _arm(
        "Passages of prose that say the same in slightly other words.",
        copies=_whole(5, "Passages in succession that each resemble earlier ones.", 2),
        back=_whole(8, "Earlier passages that one is compared with.", 2),
        words=_whole(16, "Fewest words of a passage.", 3),
        nearest=_share(0.7, "Of a passage's word trigrams, the least that one earlier passage has."),
        twice=_share(0.5, "Of them, the least that two earlier passages have."),
    ),
}


@register("reasoning_loop", "SP1", PARAMS, tuple(PARAMS), "Closes a reasoning that repeats itself.")
def reasoning_loop(event: BlockEvent, task: Task, view: View) -> Action | None:
    if not event.inside:
        return None
    arm = arm_of(view.trace.reasoning, view.trace.thoughts, task.params)
    if arm is None:
        return None
    return Action(
        kind="CLOSE_REASONING",
        reason=f"loop({arm.name})",
        score=arm.measure,
        detail={
            "arm": arm.name,
            "copies" if arm.name == "period" else "share": round(arm.measure, 3),
            "reasoning_tokens": event.reasoning_tokens,
            "position": event.position,
        },
    )
