"""S1: a gate that fails time and again in as many points gets a note to take another approach (MON-118 to MON-121)."""

from __future__ import annotations

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import RequestEvent, Task, View
from tandem.conductor.monitor.requiring import REQUIRES, keeps_state_files
from tandem.conductor.monitor.tier0 import register, text

__all__ = ["gate_stuck"]


@register(
    "gate_stuck",
    "SP4",
    params={
        "requires": REQUIRES,
        "fails": {"type": "integer", "minimum": 2, "maximum": 100, "description": "Failures running of one gate."},
        "note": text("gate", "fails"),
    },
    required=("requires", "fails", "note"),
    doc="Notes a gate that fails again and again without a better value.",
)
def gate_stuck(event: RequestEvent, task: Task, view: View) -> Action | None:
    if not keeps_state_files(task, event):
        return None
    noted = view.kept(task.id).get("noted", {})
    for name, gate in reversed(list(view.progress.gates.items())):
        if gate.verdict == "FAIL" and gate.fails >= task.params["fails"] and noted.get(name) != gate.run:
            still = {each: run for each, run in noted.items() if each in view.progress.gates}
            return Action(
                kind="PROMPT_TAIL_NOTE",
                reason=f"gate({name},fails={gate.fails})",
                text=task.params["note"].format(gate=name, fails=gate.fails),
                detail={"gate": name, "fails": gate.fails, "value": gate.value, "best": gate.best},
                delta={"noted": {**still, name: gate.run}},
            )
    return None
