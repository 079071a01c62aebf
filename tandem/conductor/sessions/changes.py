"""How a delta changes a session (SES-020). Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tandem.conductor.monitor.state import remembered
from tandem.conductor.router.notes import LiveNote
from tandem.conductor.sessions.view import Answered, SessionDelta, SessionView, SizeSignals

__all__ = ["changed"]

NOTES = 256
"""Notes kept of one session, those of branches that its user has left among them."""
ANSWERED = 32
ANSWERED_S = 24 * 3600.0


def changed(view: SessionView, delta: SessionDelta, planned: SessionView) -> SessionView:
    """The session after `delta`, which was made of the view `planned`."""
    new: dict[str, Any] = {"turns": view.turns + delta.turn, "notes": _notes(view, delta, planned)}
    for name in ("class_id", "confidence", "package", "size", "compacted", "escaping_since"):
        if (value := getattr(delta, name)) is not None:
            new[name] = value
    if delta.compacted:
        # A task is sized anew. Notes stay: a client that could not use the summary sends its old history on.
        new |= {"has_been_compacted": True, "size": SizeSignals()}
    if delta.answered is not None:
        newest = delta.answered
        kept = [each for each in view.answered if each.digest != newest.digest and newest.at - each.at < ANSWERED_S]
        new["answered"] = (*kept[1 - ANSWERED :], newest)
    if delta.refused is not None and not any(_has_answer(each, delta.refused) for each in planned.answered):
        new["answered"] = tuple(
            replace(each, has_answer=False) if each == delta.refused else each for each in view.answered
        )
    if delta.monitor is not None:
        new["monitor"] = remembered(view.monitor, delta.monitor, delta.at)
    return replace(view, **new)


def _has_answer(turn: Answered, same: Answered) -> bool:
    return turn.digest == same.digest and turn.has_answer


def _notes(view: SessionView, delta: SessionDelta, planned: SessionView) -> tuple[LiveNote, ...]:
    """Of two requests that were planned at once neither has read the other's note, so at one place the later stays."""
    if not (delta.notes or delta.dropped):
        return view.notes
    chains = {note.chain for note in delta.notes}
    gone = {note for note in view.notes if note.chain in chains}.difference(planned.notes).union(delta.dropped)
    kept = [note for note in view.notes if note not in gone]
    return (*kept, *delta.notes)[-NOTES:]
