"""Hidden questions of a tier 1 rule, put in place at the end of an answer (MON-062, MON-063, MON-068, MON-069)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import partial

from tandem.conductor.monitor.actions import Action, Inquiry
from tandem.conductor.monitor.case import Case
from tandem.conductor.monitor.events import FinishEvent, Task
from tandem.engine.decoding.seams import Seen
from tandem.engine.decoding.work import Answer, Ask

__all__ = ["inquired"]


def inquired(case: Case, task: Task, event: FinishEvent, seen: Seen) -> Generator[Ask, Answer, Action | None]:
    """What the task's rule says in the end; what it asks meanwhile is yielded, and the answer sent."""
    found = case.asked(task, "SP2", event)
    put = failures = 0
    ms = 0.0
    while isinstance(found, Inquiry):
        probabilities = None
        asked = _asked(case, task, found, seen)
        if isinstance(asked, Ask):
            answer = yield asked
            probabilities, put, ms = answer.probabilities, put + 1, ms + answer.ms
        else:
            failures += 1
        why = asked if isinstance(asked, str) else ""
        found = case.guarded(task, "SP2", partial(found.then, probabilities, why))
    if put or failures:
        found = found or Action(kind="PASS", reason="asked")
        asked_ms = {"ms": round(ms, 1)} if put else {}
        return replace(found, detail={**found.detail, **asked_ms, "questions": put, "question_failures": failures})
    return found


def _asked(case: Case, task: Task, inquiry: Inquiry, seen: Seen) -> Ask | str:
    """The question, or why it is not put."""
    if task.mode == "act" and (cap := case.acts.reached) is not None:
        return f"cap({cap})"
    if case.req.logprobs:
        return "logprobs"
    try:
        turn = case.setup.hidden.question(inquiry.text, inquiry.options)
    except Exception as error:
        return f"error({type(error).__name__})"
    if turn is None:
        return "no_template"
    ids, options = turn
    return Ask(ids, options) if len(ids) <= seen.room else "no_room"
