"""S5: a session is to deliver: a first version soon, a report once something works, no point made a third time
(MON-118 to MON-123). It needs no state files.

Each of its three notes is given once for a message of the user. A message that only begins a call, in few words, opens
like many others and counts for none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import RequestEvent, Task, View
from tandem.conductor.monitor.progress import asks_for_summary
from tandem.conductor.monitor.rules.stalled import MINUTE_S
from tandem.conductor.monitor.tier0 import register, text
from tandem.conductor.monitor.written import can_write
from tandem.conductor.router.turns import text_of, user_messages

__all__ = ["delivery"]

MINUTES: Final = {"type": "number", "exclusiveMinimum": 0, "maximum": 1_440}
LOOKED_AT: Final = 4_096
"""Characters of a message in which its opening words are."""


@register(
    "delivery",
    "SP4",
    params={
        "first_write_minutes": {**MINUTES, "description": "Age of the user's message with nothing written."},
        "wrap_up_minutes": {**MINUTES, "description": "Its age with something written and no final answer."},
        "repeats": {"type": "integer", "minimum": 2, "maximum": 100, "description": "Messages that open alike."},
        "opening_words": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Words that are an opening."},
        "first_write": text(),
        "wrap_up": text(),
        "repeat": text("count"),
    },
    required=(
        "first_write_minutes",
        "wrap_up_minutes",
        "repeats",
        "opening_words",
        "first_write",
        "wrap_up",
        "repeat",
    ),
    doc="Notes work that is not put down, not reported, or said again and again.",
)
def delivery(event: RequestEvent, task: Task, view: View) -> Action | None:
    progress, kept = view.progress, view.kept(task.id)
    users = user_messages(event.messages)
    if progress.user_at is None or not users or asks_for_summary(event):
        return None
    turn = event.messages[users[-1] + 1 :]
    given = tuple(kept.get("given", ())) if kept.get("of") == progress.user_at else ()
    looks: Sequence[tuple[str, Callable[[], tuple[str, Mapping[str, Any]] | None]]] = (
        ("first_write", lambda: _first_write(event, task, view)),
        ("wrap_up", lambda: _wrap_up(event, task, view, turn)),
        ("repeat", lambda: _repeat(task, turn)),
    )
    for name, look in looks:
        found = None if name in given else look()
        if found is not None:
            reason, about = found
            return Action(
                kind="PROMPT_TAIL_NOTE",
                reason=f"{name}({reason})",
                text=task.params[name].format(**about),
                detail=dict(about),
                delta={"of": progress.user_at, "given": (*given, name)},
            )
    return None


def _first_write(event: RequestEvent, task: Task, view: View) -> tuple[str, Mapping[str, Any]] | None:
    minutes = _age(event, view)
    if view.progress.wrote or minutes < task.params["first_write_minutes"] or not can_write(event.tools):
        return None
    return f"{int(minutes)} min", {"minutes": round(minutes, 1)}


def _wrap_up(
    event: RequestEvent, task: Task, view: View, turn: Sequence[Mapping[str, Any]]
) -> tuple[str, Mapping[str, Any]] | None:
    minutes = _age(event, view)
    if not view.progress.wrote or minutes < task.params["wrap_up_minutes"] or any(map(_is_answer, turn)):
        return None
    return f"{int(minutes)} min", {"minutes": round(minutes, 1)}


def _repeat(task: Task, turn: Sequence[Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]] | None:
    """How often the newest message's opening has come since the user spoke."""
    count = task.params["opening_words"]
    said = [message for message in turn if message["role"] == "assistant" and message.get("content")]
    newest = _opening(said[-1], count) if len(said) >= task.params["repeats"] else None
    copies = 0 if newest is None else sum(_opening(message, count) == newest for message in said)
    return (str(copies), {"count": copies}) if copies >= task.params["repeats"] else None


def _opening(message: Mapping[str, Any], count: int) -> Sequence[str] | None:
    """Its first words, in any case; None where there are not that many."""
    words = text_of(message)[:LOOKED_AT].lower().split(maxsplit=count)[:count]
    return words if len(words) == count else None


def _age(event: RequestEvent, view: View) -> float:
    """Minutes since the user's message came first."""
    at = view.progress.user_at
    return 0.0 if at is None else (event.now - at) / MINUTE_S


def _is_answer(message: Mapping[str, Any]) -> bool:
    return message["role"] == "assistant" and not message.get("tool_calls")
