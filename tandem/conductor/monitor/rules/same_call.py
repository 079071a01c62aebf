"""C3: a call that has brought the same again and again is not sent once more (MON-087 to MON-092, MON-157, MON-158).

The run is told from the request's messages, so only the first call of an answer can complete it: between that and the
others stand results that nobody has seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.call_findings import about
from tandem.conductor.monitor.call_runs import (
    Made,
    Run,
    hashed,
    near_run,
    pending_runs,
    result_text,
    returned,
    turn_calls,
    waited_s,
    waits,
)
from tandem.conductor.monitor.events import RequestEvent, Task, ToolCallEvent, View
from tandem.conductor.monitor.stopped_calls import shown_name
from tandem.conductor.monitor.tier0 import overridable, register, text
from tandem.conductor.tool_arguments import canonical

__all__ = ["near_calls", "same_call"]


def holds(task: Task, view: View) -> bool:
    """A run lacks nothing but its last call (MON-090)."""
    return next(pending_runs(_done(task, view), task.params["repeats"], task.params["cycle"]), None) is not None


def near_calls(event: RequestEvent, task: Task, view: View) -> Action | None:
    """SP4: calls that differ in nothing but numbers get a note, with the request that makes them a run (MON-158)."""
    done = _done(task, view) if event.tools else []
    repeats, run = task.params["repeats"], near_run(done)
    before = run[sum(call.round == done[0].round for call in done) :]
    if not _is_near(run, repeats) or _is_near(before, repeats):
        return None
    count = len(run)
    tool = done[0].tool
    detail = {**_hashes(done[:1]), "run": count}
    if event.escape_noted:
        return Action(kind="PASS", reason=f"near({count})", detail={**detail, "noted": "router"})
    note = task.params["escape_texts"].format(tool=shown_name(tool))
    return Action(kind="PROMPT_TAIL_NOTE", reason=f"near({count})", text=note, detail=detail)


@register(
    "same_call",
    "SP3",
    params={
        "repeats": overridable(
            {"type": "integer", "minimum": 2, "maximum": 100, "description": "Equal calls that are one too many."}
        ),
        "cycle": overridable(
            {"type": "integer", "minimum": 1, "maximum": 100, "description": "The longest period looked at."}
        ),
        "wait_s": overridable(
            {"type": "number", "minimum": 0, "description": "A result that took this long was waited for."}
        ),
        "reminder": {**text("tool", "count"), "description": "What the model reads in place of a result."},
        "cycle_reminder": {**text("tools"), "description": "The same, of a circle of several calls."},
        "escape_texts": {
            **text("tool"),
            "description": "Note against calls that differ in nothing but numbers, and against sampled repeats.",
        },
    },
    required=("repeats", "cycle", "wait_s", "reminder", "cycle_reminder", "escape_texts"),
    doc="Holds back a call that has brought the same result again and again.",
    holds=holds,
    at_request=near_calls,
)
def same_call(event: ToolCallEvent, task: Task, view: View) -> Action | None:
    if not event.final or event.why is not None or (event.others and event.others[0].index != event.index):
        return None
    runs = pending_runs(_done(task, view), task.params["repeats"], task.params["cycle"])
    run = next((run for run in runs if run.next.is_call(event.name, event.arguments)), None)
    if run is None:
        return None
    return Action(
        kind="REGENERATE_CALL",
        reason=f"repeat({run.length})" if run.period == 1 else f"cycle({run.period})",
        text=_reminder(run, task.params),
        detail=about(event, run=run.length, period=run.period, wait_s=_wait(run, view), **_hashes(run.unit)),
    )


def _is_near(run: Sequence[str], repeats: int) -> bool:
    """So many calls, and not all of them equal: that is a run of its own."""
    return len(run) >= repeats and len(set(run)) > 1


def _done(task: Task, view: View) -> list[Made]:
    """The turn's calls with a result, newest first, back to the newest wait."""
    calls = turn_calls(view.req.messages)
    return returned(calls, waits(calls, view.session, view.req.now, task.params["wait_s"]))


def _reminder(run: Run, params: Mapping[str, Any]) -> str:
    if run.period == 1:
        return str(params["reminder"].format(tool=shown_name(run.next.tool), count=run.length))
    return str(params["cycle_reminder"].format(tools=", ".join(shown_name(call.tool) for call in run.unit)))


def _wait(run: Run, view: View) -> float | None:
    """How long the newest result took, where anybody knows."""
    newest = run.unit[-1]
    record = next((record for record in view.session.calls if record.id == newest.key), None)
    seconds = waited_s(newest, record, view.session, view.req.now, is_newest=True)
    return None if seconds is None else round(seconds, 1)


def _hashes(calls: Sequence[Made]) -> dict[str, Any]:
    return {
        "hashes": [hashed(canonical(call.arguments)) for call in calls],
        "results": [hashed(result_text(call.result)) for call in calls],
    }
