"""What one request's monitor has decided, and what of it the session is to remember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import MonitorEvent, Task, TaskMode
from tandem.conductor.monitor.state import CallRecord, MonitorDelta, Progress

__all__ = ["Finding", "Record"]

CONTENT = ("arguments", "calls")
"""Details of a repair that are what the model wrote: they go out, and into no row (MON-144)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a task's rule wants done, at a point."""

    task: Task
    sp: Any
    action: Action
    mode: TaskMode
    """The effective one: the task's, lowered by the action's own."""


class Record:
    """Events in order, until they are taken, and the changes of the session's memory."""

    def __init__(self, calls: tuple[CallRecord, ...], asked_at: float, progress: Progress | None = None) -> None:
        """`calls` and `progress` are what the request tells of the session; None: nothing new."""
        self.done: tuple[MonitorEvent, ...] = ()
        self.hidden_tokens = 0
        self._events: list[MonitorEvent] = []
        self._kept: dict[str, dict[str, Any]] = {}
        self._delta = MonitorDelta(calls=calls, asked_at=asked_at, progress=progress)

    def note(self, event: MonitorEvent) -> None:
        self.done = (*self.done, event)
        self.hidden_tokens += event.hidden_tokens
        self._events.append(event)

    def passed(self, finding: Finding, reason: str, **detail: Any) -> None:
        """Nothing was done, for this reason."""
        action = finding.action
        about = {} if action.kind == "PASS" else {"kind": action.kind}
        self.found(finding, decision="PASS", reason=reason, detail={**action.detail, **about, **detail})

    def found(self, finding: Finding, **fields: Any) -> None:
        """A finding, by default only journaled: `acted` says what was done of it."""
        task, action = finding.task, finding.action
        known: dict[str, Any] = {
            "decision": action.kind,
            "acted": None,
            "reason": action.reason,
            "score": action.score,
            "detail": action.detail,
        }
        about = {"task": task.id, "rule": task.rule, "tier": task.tier, "sp": finding.sp, "mode": finding.mode}
        known |= fields
        known["detail"] = {name: value for name, value in known["detail"].items() if name not in CONTENT}
        self.note(MonitorEvent(**about, action=action, **known))

    def remember(self, task: str, delta: Mapping[str, Any]) -> None:
        """Laid over what the task has kept (MON-142)."""
        if delta:
            self._kept[task] = {**self._kept.get(task, {}), **delta}

    def ended(self, acts: tuple[float, ...], reasoning: frozenset[int] | None, at: float) -> None:
        """The request has ended, and this is what its answer leaves."""
        self._delta = replace(self._delta, acts=acts, reasoning=reasoning, ended_at=at)

    def take_events(self) -> list[MonitorEvent]:
        events, self._events = self._events, []
        return events

    def take_delta(self) -> MonitorDelta | None:
        """None: there is nothing new to remember."""
        delta = replace(self._delta, kept=self._kept)
        self._delta, self._kept = MonitorDelta(), {}
        return None if delta == MonitorDelta() else delta
