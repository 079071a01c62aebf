"""What the session monitor does to a request, as its row shows it, in words too (OBS-067, OBS-068)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import UNSET, UnsetType

from tandem.live.figures import counted
from tandem.live.seen import ConductorSeen

__all__ = ["ConductorNow", "conductor_now"]

ACTED: Mapping[str, str] = MappingProxyType(
    {
        "CLOSE_REASONING": "closed the reasoning",
        "CONTINUE_HIDDEN": "had the turn go on",
        "REPAIR_CALL": "repaired a call",
        "REGENERATE_CALL": "had a call written anew",
        "PROMPT_TAIL_NOTE": "left the model a note",
        "SET_THINK_BUDGET": "limited the thinking",
        "GIVE_UP": "ended the turn",
    }
)
"""After the task's name, or after `would have`."""


class ConductorNow(msgspec.Struct, frozen=True, kw_only=True):
    """Task, decision and action are of the newest finding."""

    label: str
    mode: str
    acts: int
    hidden_tokens: int
    task: str | None
    decision: str | None
    action: str | None
    supervising: bool


def conductor_now(seen: ConductorSeen | None) -> ConductorNow | UnsetType:
    """Unset where nobody looks on."""
    if seen is None:
        return UNSET
    return ConductorNow(
        label=_label(seen),
        mode=seen.mode,
        acts=seen.acts,
        hidden_tokens=seen.hidden_tokens,
        task=seen.task,
        decision=seen.decision,
        action=seen.action,
        supervising=seen.supervising,
    )


def _label(seen: ConductorSeen) -> str:
    """What the session monitor has found last, and what it has done so far."""
    did = ACTED.get(seen.decision or "")
    if did is None or seen.task is None:
        told = ["nothing found"]
    elif seen.action is None:
        told = [f"{seen.task} would have {did}"]
    else:
        told = [f"{seen.task} {ACTED.get(seen.action, did)}"]
    if seen.acts > 1:
        told.append(counted(seen.acts, "act"))
    if seen.hidden_tokens:
        told.append(counted(seen.hidden_tokens, "hidden token"))
    now = "the model reads what its client does not see; " if seen.supervising else ""
    return f"monitor{' in shadow' if seen.mode == 'shadow' else ''}: {now}{', '.join(told)}"
