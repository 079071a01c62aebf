"""D3: ends an answer that repeats one piece of text until the token limit (MON-156)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.checkpoints import first_pieces, newest_check
from tandem.conductor.monitor.events import BlockEvent, Task, View
from tandem.conductor.monitor.periods import FORM, Form, Period, id_period, repetition
from tandem.conductor.monitor.tier0 import register

__all__ = ["PARAMS", "answer_loop"]

PARAMS: dict[str, Any] = {
    "first": {"type": "integer", "minimum": 1, "default": 1_024, "description": "Answer tokens at the first check."},
    "every": {"type": "integer", "minimum": 1, "default": 64, "description": "Tokens between two checks."},
    "form": {
        **FORM,
        "description": "What a repetition is.",
        "default": {"tokens": 1_024, "copies": 6, "longest": 4_096},
    },
}


@register("answer_loop", "SP1", PARAMS, tuple(PARAMS), "Ends an answer that repeats itself.")
def answer_loop(event: BlockEvent, task: Task, view: View) -> Action | None:
    params, trace = task.params, view.trace
    if event.inside or view.req.constrained:
        return None
    tokens = newest_check(len(trace.answer_ids), params["first"], params["every"])
    if tokens is None:
        return None
    found = _found(trace.answer_ids[:tokens], first_pieces(trace.answer, len(trace.answer_ids), tokens), params)
    if found is None:
        return None
    copies = int(found.copies)
    return Action(
        kind="GIVE_UP",
        reason="answer_loop(period)",
        text=view.texts["answer_loop"].format(unit=found.unit, copies=copies),
        score=found.copies,
        detail={"answer_tokens": tokens, "unit": found.unit, "copies": copies, "position": event.position},
    )


def _found(ids: Sequence[int], pieces: Sequence[str], params: Mapping[str, Any]) -> Period | None:
    form = Form(**params["form"])
    found = repetition(pieces, (form,))
    if found is not None or len(pieces) >= len(ids):
        return found
    # A token that ends in the midst of a character has no piece of its own: the ids tell it sooner.
    exact = id_period(ids, form.tokens, int(form.tokens / form.copies))
    if exact is None:
        return None
    characters = sum(map(len, pieces)) / len(ids)
    return Period(max(1, round(exact.unit * characters)), round(exact.span * characters))
