"""Modes only ever go down (MON-005): which tasks a request has, in which mode, with which thresholds (MON-010)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from tandem.conductor.documents.profiles import Profile
from tandem.conductor.documents.words import Mode
from tandem.conductor.monitor.events import Task, TaskMode
from tandem.conductor.monitor.policy import Caps, Policy
from tandem.conductor.monitor.tier0 import OVERRIDABLE, Rule

__all__ = ["ArgLoop", "caps_of", "lowest", "task_mode", "tasks_of"]

ArgLoop: TypeAlias = Literal["on", "log", "off"]
RANKS: Final[Mapping[str, int]] = {"raw": 0, "shadow": 1, "on": 2}
TASK_RANKS: Final[Mapping[str, int]] = {"off": 0, "shadow": 1, "act": 2}
TASK_MODES: Final[tuple[TaskMode, ...]] = ("off", "shadow", "act")
PACKS: Final = {"C1": "risk", "C2": "project", "C3": "same_call", "C4": "malformed", "C5": "sequence"}
"""The profile's switch of each tool-call check (MON-082)."""
OFF_UNLESS_NAMED: Final = frozenset({"E2", *PACKS, "S1", "S2", "S4"})
"""Tasks that a profile must name to have them; the others follow the policy."""
ARGLOOP: Final[Mapping[ArgLoop, TaskMode]] = {"on": "act", "log": "shadow", "off": "off"}
GUARDED: Final = "A1"
"""Tasks of this name, and those that begin with it and a dot, are `--argloop`'s (MON-103)."""


def lowest(*modes: Mode) -> Mode:
    """The lowest of request modes."""
    return min(modes, key=RANKS.__getitem__)


def task_mode(monitor: Mode, task: TaskMode, wanted: object = None) -> TaskMode:
    """The effective mode of a finding; `wanted` is its own `detail.mode`, which is looked at where it names one."""
    ranks = [RANKS[monitor], TASK_RANKS[task]]
    if isinstance(wanted, str) and wanted in TASK_RANKS:
        ranks.append(TASK_RANKS[wanted])
    return TASK_MODES[min(ranks)]


def caps_of(policy: Policy, profile: Profile | None) -> Caps:
    """A profile's caps replace the policy's (MON-154)."""
    if profile is None or profile.caps is None:
        return policy.caps
    own = profile.caps
    return Caps(acts_per_request=own.acts_per_request, acts_per_session_hour=own.acts_per_session_hour)


def tasks_of(
    policy: Policy, rules: Mapping[str, Rule], monitor: Mode, profile: Profile | None, argloop: ArgLoop
) -> tuple[Task, ...]:
    """The tasks that are evaluated for a request, in the policy's order, each in its effective mode."""
    found = (_laid_over(task, rules[task.rule], profile, argloop) for task in policy.tasks)
    effective = (replace(task, mode=task_mode(monitor, task.mode)) for task in found)
    return tuple(task for task in effective if task.mode != "off")


def _laid_over(task: Task, rule: Rule, profile: Profile | None, argloop: ArgLoop) -> Task:
    if task.id == GUARDED or task.id.startswith(f"{GUARDED}."):
        return replace(task, mode=task_mode("on", task.mode, ARGLOOP[argloop]))
    if profile is None:
        return task
    if (pack := PACKS.get(task.id)) is not None and getattr(profile.toolgate, pack) == "off":
        return replace(task, mode="off")
    own: Any = getattr(profile.tasks, task.id, None)
    mode = None if own is None else own.mode
    if mode is None:
        mode = "off" if task.id in OFF_UNLESS_NAMED else task.mode
    return replace(task, mode=mode, params={**task.params, **_thresholds(own, rule), **_of_session(task, profile)})


def _thresholds(own: Any, rule: Rule) -> dict[str, Any]:
    """What the profile sets of those parameters that the rule lets it set."""
    names = [name for name, schema in rule.params.items() if schema.get(OVERRIDABLE)]
    return {name: value for name in names if (value := getattr(own, name, None)) is not None}


def _of_session(task: Task, profile: Profile) -> dict[str, Any]:
    """What the profile's section `context` sets of a session task; `notify` is the watch's, for it has no profile."""
    context = profile.context
    match task.id:
        case "S1":
            return {} if context.s1_runs is None else {"fails": context.s1_runs}
        case "S4":
            minutes = {} if context.s4_minutes is None else {"minutes": context.s4_minutes}
            return {**minutes, "notify": context.notify == "on"}
        case _:
            return {}
