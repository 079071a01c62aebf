"""S4: work that has not come forward for a while, though requests arrive, is to name what blocks it (MON-118 to
MON-121). What it remembers of each request tells the watch when to say that its client is gone (MON-126).
"""

from __future__ import annotations

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import RequestEvent, Task, View
from tandem.conductor.monitor.progress import asks_for_summary
from tandem.conductor.monitor.requiring import REQUIRES, keeps_state_files
from tandem.conductor.monitor.tier0 import register, text

__all__ = ["MINUTE_S", "stalled"]

MINUTE_S = 60.0


@register(
    "stalled",
    "SP4",
    params={
        "requires": REQUIRES,
        "minutes": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 1_440,
            "description": "Minutes without a write, a better value or a pass; for the watch, without a request.",
        },
        "note": text("minutes"),
    },
    required=("requires", "minutes", "note"),
    doc="Notes work that does not come forward; the watch says when its client is gone.",
)
def stalled(event: RequestEvent, task: Task, view: View) -> Action | None:
    if not keeps_state_files(task, event):
        # Not the request of such a project, so the watch has none to wait for.
        return Action(kind="PASS", delta={"watched": None}) if view.kept(task.id).get("watched") else None
    watched = {
        "mode": task.mode,
        "minutes": task.params["minutes"],
        "notify": bool(task.params.get("notify")),
        "profile": event.profile,
    }
    since = view.progress.since
    minutes = 0.0 if since is None else (event.now - since) / MINUTE_S
    due = minutes >= task.params["minutes"] and not asks_for_summary(event)
    if not due or view.kept(task.id).get("noted") == since:
        return Action(kind="PASS", delta={"watched": watched})
    return Action(
        kind="PROMPT_TAIL_NOTE",
        reason=f"stalled({int(minutes)} min)",
        text=task.params["note"].format(minutes=int(minutes)),
        detail={"minutes": round(minutes, 1), "last": view.progress.kind},
        delta={"watched": watched, "noted": since},
    )
