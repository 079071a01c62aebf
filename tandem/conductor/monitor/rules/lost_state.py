"""S2: behind a compaction, a session that has read none of its state files for some calls is told to (MON-119 to
MON-122).
"""

from __future__ import annotations

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import RequestEvent, Task, View
from tandem.conductor.monitor.progress import name_hash
from tandem.conductor.monitor.requiring import REQUIRES, keeps_state_files
from tandem.conductor.monitor.tier0 import register, text

__all__ = ["lost_state"]


@register(
    "lost_state",
    "SP4",
    params={
        "requires": REQUIRES,
        "steps": {"type": "integer", "minimum": 1, "maximum": 1_000, "description": "Calls since the compaction."},
        "files": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "uniqueItems": True,
            "description": "Names of the state files, without folders.",
        },
        "note": text("files"),
    },
    required=("requires", "steps", "files", "note"),
    doc="Notes a session that was compacted and has not read its state files.",
)
def lost_state(event: RequestEvent, task: Task, view: View) -> Action | None:
    progress = view.progress
    if not progress.compactions or not keeps_state_files(task, event):
        return None
    kept = view.kept(task.id)
    if kept.get("read") == progress.compactions:
        return None
    if any(name_hash(name) in progress.files for name in task.params["files"]):
        return Action(kind="PASS", delta={"read": progress.compactions})
    if progress.steps < task.params["steps"] or kept.get("noted") == progress.compactions:
        return None
    return Action(
        kind="PROMPT_TAIL_NOTE",
        reason=f"compaction(steps={progress.steps})",
        text=task.params["note"].format(files=", ".join(task.params["files"])),
        detail={"steps": progress.steps},
        delta={"noted": progress.compactions},
    )
