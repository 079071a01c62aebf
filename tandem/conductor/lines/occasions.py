"""Which steps of the conductor get a line, and what it says (STA-003): those of a plan, and the monitor's acts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tandem.conductor.documents import Documents, Switch
from tandem.conductor.lines.templates import FINDINGS, REMINDERS, WHERE, WHYS, say
from tandem.conductor.monitor.events import MonitorEvent
from tandem.conductor.router.draft import FRESH
from tandem.conductor.router.placing import Placed
from tandem.conductor.router.plan import Plan
from tandem.engine.text.reading.deltas import Line

__all__ = ["acted_line", "planned_lines"]

PACKAGE = "package:"
"""How the name of a note's part begins that is a package's text."""
THINKING, ANSWER, CALL = WHERE
LOOPS = {"D1": THINKING, "D1b": THINKING, "D3": ANSWER, "A1": CALL}


def planned_lines(
    plan: Plan, placed: Placed, documents: Documents, *, classify: Switch, effort: Switch
) -> tuple[Line, ...]:
    """Of what was decided before the queue; each step once a turn, so a turn of tool results has none."""
    return tuple(_planned(plan, placed, documents, (classify, effort)))


def _planned(plan: Plan, placed: Placed, documents: Documents, switches: Sequence[Switch]) -> Iterator[Line]:
    if plan.turn == "after_compaction":
        yield say("compaction")
    if plan.turn in FRESH and switches == ("on", "on"):
        yield from _route(plan, documents)
    parts = [part for each in placed.notes if each.is_new for part in each.note.parts]
    if names := [name.removeprefix(PACKAGE) for _, name, _ in parts if name.startswith(PACKAGE)]:
        yield say("packages", names=", ".join(names))
    if any(kind == "outcome" for kind, _, _ in parts):
        yield say("note", what=REMINDERS["outcome"])


def _route(plan: Plan, documents: Documents) -> Iterator[Line]:
    decided, effort = plan.class_decision, plan.effort
    if decided is None or effort is None or effort.level is None:
        return
    found = documents.class_def(decided.class_id)
    level = "off" if effort.thinking != "on" else effort.level
    yield say("route", label=decided.class_id if found is None else found.label, effort=level)


def acted_line(event: MonitorEvent) -> Line | None:
    """The line of one decision of the monitor; None where nothing was done, and where there is nothing to say."""
    task, acted = event.task, event.acted
    if acted is None or acted in ("PASS", "NOTIFY"):
        return None
    if acted == "PROMPT_TAIL_NOTE":
        return say("note", what=REMINDERS[task]) if task in REMINDERS else None
    if task in LOOPS:
        return say("loop", where=LOOPS[task])
    if acted == "CLOSE_REASONING":
        return None if event.reasoning_cut is None else say("cap", n=event.reasoning_cut)
    if task in WHYS and acted == "CONTINUE_HIDDEN":
        return say("continue", why=WHYS[task])
    if task in FINDINGS and acted in ("REGENERATE_CALL", "REPAIR_CALL"):
        return say("tool_check", tools=_tools(event), finding=FINDINGS[task])
    return None


def _tools(event: MonitorEvent) -> str:
    """The tools that the row names; by what key they stand there is the rule's own affair."""
    named = event.detail.get("tools") or event.detail.get("tool") or event.detail.get("name") or "call"
    if isinstance(named, list | tuple):
        return ", ".join(map(str, named))
    return named if isinstance(named, str) else "call"
