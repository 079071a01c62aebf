"""What a decision adds to the conductor's metrics (OBS-037); whoever keeps the series adds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem.conductor.monitor.events import MonitorEvent

__all__ = ["Growth", "on_conductor_event"]


@dataclass(frozen=True, slots=True)
class Growth:
    """One series, without the prefix `tandem_conductor_` and the suffix `_total`, and what it grows by."""

    series: str
    labels: Mapping[str, str] = field(default_factory=dict)
    by: int = 1


def on_conductor_event(event: MonitorEvent) -> tuple[Growth, ...]:
    """The series that grow with `event`; passes are decisions too."""
    of_task = {"task": event.task}
    found: list[Growth] = []
    if event.is_decision:
        found.append(Growth("decisions", {**of_task, "decision": event.decision, "mode": event.mode}))
    for mode, silent in event.detail.get("checks", {}).items():
        found += [
            Growth("decisions", {"task": task, "decision": "PASS", "mode": mode}, by) for task, by in silent.items()
        ]
    if event.acted is not None:
        found.append(Growth("actions", {**of_task, "action": event.acted}))
    if event.acted == "GIVE_UP":
        found.append(Growth("gave_up", of_task))
    counts = {
        "hidden_tokens": ({}, event.hidden_tokens),
        "questions": (of_task, event.detail.get("questions", 0)),
        "question_failures": (of_task, event.detail.get("question_failures", 0)),
        "reasoning_tokens_cut": (of_task, (event.reasoning_cut or 0) if event.acted == "CLOSE_REASONING" else 0),
    }
    found += [Growth(name, labels, by) for name, (labels, by) in counts.items() if by]
    return tuple(found)
