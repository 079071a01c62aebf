"""The watch: which sessions' clients are gone, and how each session stands (MON-126, MON-127, MON-132). Pure.

S4 remembers of each request how it is to be watched, since a sweep has no request and no profile. What is reported is
remembered by the end of the turn that it followed, so one stall is reported once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem.conductor.monitor.actions import Action, ActionKind
from tandem.conductor.monitor.events import MonitorEvent, Task, TaskMode
from tandem.conductor.monitor.policy import Policy
from tandem.conductor.monitor.progress import name_hash
from tandem.conductor.monitor.rules.stalled import MINUTE_S
from tandem.conductor.monitor.state import Monitored, ProgressKind
from tandem.conductor.sessions.view import SessionView

__all__ = ["Sighting", "Watched", "clients_gone", "sighting", "watched"]

GATES, STATE, STALLS = "gate_stuck", "lost_state", "stalled"
"""The rules whose tasks the watch speaks of."""
NOT_WATCHED: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """How a session is watched, by its newest request."""

    mode: TaskMode
    minutes: float
    notify: bool
    """Its profile turns notifications on."""
    profile: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSight:
    name: str
    verdict: str
    value: int | None
    best: int | None
    fails: int
    noted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSight:
    watching: bool
    """The history was compacted, and no state file was read since."""
    steps: int
    noted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSight:
    kind: ProgressKind | None
    age_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSight:
    idle_s: float | None
    """Since its last turn ended; None while one runs."""
    gone: bool
    """This was reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """How a session stands."""

    gates: tuple[GateSight, ...]
    compaction: CompactionSight
    progress: ProgressSight
    client: ClientSight
    push: bool
    """A message will be pushed when its client is gone."""


def watched(state: Monitored, task: str) -> Watched | None:
    """None: nobody watches the session, for S4 is off or it keeps no state files."""
    found = state.kept.get(task, NOT_WATCHED).get("watched")
    return None if found is None else Watched(**found)


def clients_gone(policy: Policy, views: Iterable[SessionView], now: float) -> Iterator[tuple[str, MonitorEvent]]:
    """What a sweep finds, by the session's key; the event's action says what is to be remembered."""
    task = _task(policy, STALLS)
    if task is None:
        return
    for view in views:
        rules, idle_s = watched(view.monitor, task.id), _idle_s(view.monitor, now)
        if rules is None or rules.mode == "off" or idle_s is None or idle_s <= rules.minutes * MINUTE_S:
            continue
        if not _is_reported(view.monitor, task.id):
            yield view.key, _event(policy, task, view.monitor, rules, idle_s)


def sighting(policy: Policy, state: Monitored, now: float) -> Sighting:
    """How the session stands at `now`, in seconds since 1970."""
    stalls, gates = _task(policy, STALLS), _task(policy, GATES)
    rules = None if stalls is None else watched(state, stalls.id)
    noted = {} if gates is None else state.kept.get(gates.id, NOT_WATCHED).get("noted", {})
    progress = state.progress
    is_gone = stalls is not None and _is_reported(state, stalls.id)
    notifies = rules is not None and rules.mode == "act" and (policy.notify.enabled or rules.notify)
    return Sighting(
        gates=tuple(
            GateSight(
                name=name,
                verdict=gate.verdict,
                value=gate.value,
                best=gate.best,
                fails=gate.fails,
                noted=noted.get(name) == gate.run,
            )
            for name, gate in progress.gates.items()
        ),
        compaction=_compaction(_task(policy, STATE), state),
        progress=ProgressSight(
            kind=progress.kind, age_s=None if progress.at is None else round(max(now - progress.at, 0.0), 1)
        ),
        client=ClientSight(idle_s=_idle_s(state, now), gone=is_gone),
        push=notifies and not is_gone,
    )


def _compaction(task: Task | None, state: Monitored) -> CompactionSight:
    progress = state.progress
    if task is None or not progress.compactions:
        return CompactionSight(watching=False, steps=progress.steps if progress.compactions else 0, noted=False)
    was_read = any(name_hash(name) in progress.files for name in task.params["files"])
    noted = state.kept.get(task.id, NOT_WATCHED).get("noted") == progress.compactions
    return CompactionSight(watching=not was_read, steps=progress.steps, noted=noted)


def _event(policy: Policy, task: Task, state: Monitored, rules: Watched, idle_s: float) -> MonitorEvent:
    minutes = int(idle_s / MINUTE_S)
    notifies = policy.notify.enabled or rules.notify
    about: dict[str, Any] = {"minutes": minutes, "last": state.progress.kind}
    if not notifies:
        about["notify"] = "off"
    elif rules.mode == "shadow":
        about["notify"] = "not sent"
    kind: ActionKind = "NOTIFY" if notifies else "PASS"
    reason = f"client_gone({minutes} min)"
    action = Action(kind=kind, reason=reason, detail=about, delta={"gone": state.ended_at})
    return MonitorEvent(
        task=task.id,
        rule=task.rule,
        tier=task.tier,
        sp="watch",
        mode=rules.mode,
        decision=kind,
        acted=None,
        reason=reason,
        detail=about,
        action=action,
    )


def _idle_s(state: Monitored, now: float) -> float | None:
    """Since the last turn ended; None where a request has come since, or none ever ended."""
    if state.ended_at is None or (state.asked_at is not None and state.asked_at > state.ended_at):
        return None
    return round(max(now - state.ended_at, 0.0), 1)


def _is_reported(state: Monitored, task: str) -> bool:
    return state.ended_at is not None and state.kept.get(task, NOT_WATCHED).get("gone") == state.ended_at


def _task(policy: Policy, rule: str) -> Task | None:
    return next((task for task in policy.tasks if task.rule == rule), None)
