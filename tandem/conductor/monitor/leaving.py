"""What a request leaves: rows of its caps and its end, and what the session remembers of it (MON-038, MON-141)."""

from __future__ import annotations

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.case import Case
from tandem.conductor.monitor.events import Task
from tandem.conductor.monitor.novelty import MOST_HASHES, sequence_hashes
from tandem.conductor.monitor.record import Finding
from tandem.conductor.monitor.tier0 import AtEnd
from tandem.engine.decoding.seams import Close, EndNow
from tandem.engine.text.reading.deltas import Finish

__all__ = ["capped", "finished", "unheard"]


def capped(case: Case, close: Close) -> EndNow | None:
    """A cap has closed the reasoning. A task's own cap is an act of it, the others are none (MON-039); beyond the caps
    on acts the turn ends.
    """
    task = next((each for each in case.tasks if each.id == close.why), None)
    reason = f"budget({close.tokens})" if task is None else f"backstop({close.tokens})"
    about = {
        "position": close.seen.position,
        "hidden_tokens": close.hidden,
        "reasoning_cut": close.seen.reasoning_tokens,
        "acted": "CLOSE_REASONING" if case.mode == "on" else None,
    }
    if task is None:
        case.record.note(case.event(task=close.why, sp="SP1", decision="CLOSE_REASONING", reason=reason, **about))
        return None
    text = case.setup.texts["vendor_close"]
    action = Action(kind="CLOSE_REASONING", reason=reason)
    finding = Finding(task=task, sp="SP1", action=action, mode=task.mode)
    if (cap := case.acts.reached) is not None:
        return case.give_up(finding, f"cap({cap})", **about).end
    case.acts.add("CLOSE_REASONING", text)
    case.record.found(finding, **{**about, "text": text if close.hidden else None})
    return None


def finished(case: Case, finish: Finish, now: float) -> None:
    """Labels of earlier acts, the last row, and the memory of acts and of the reasoning."""
    for task in case.tasks:
        if (at_end := case.rule(task).at_end) is not None:
            _label(case, task, at_end)
    detail = {
        "acts": case.acts.count,
        "hidden_tokens": case.record.hidden_tokens,
        "calls": case.trace.calls,
        "checks": _checks(case),
    }
    case.record.note(case.event(task="request", sp="label", decision="OUTCOME", reason=finish.reason, detail=detail))
    case.record.ended(acts=(now,) * case.acts.count, reasoning=_reasoning(case), at=now)


def _checks(case: Case) -> dict[str, dict[str, int]]:
    """How many checks found nothing, by mode and task."""
    found: dict[str, dict[str, int]] = {}
    for (mode, task), count in case.silent.items():
        if count:
            found.setdefault(mode, {})[task] = count
    return found


def unheard(case: Case, now: float) -> None:
    """The same of a request that never began: its notes are in the session, so they count."""
    case.record.ended(acts=(now,) * case.acts.count, reasoning=None, at=now)


def _label(case: Case, task: Task, at_end: AtEnd) -> None:
    try:
        events, delta = at_end(task, case.view)
    except Exception as error:
        case.failed(task, "label", error)
        return
    for event in events:
        case.record.note(event)
    case.record.remember(task.id, delta)


def _reasoning(case: Case) -> frozenset[int] | None:
    """Hashes of the reasoning since the last user message (MON-047); None: they are as they were."""
    hashes = sequence_hashes(case.trace.reasoning)
    messages = case.req.messages
    is_new_turn = bool(messages) and messages[-1].get("role") == "user"
    earlier = case.session.reasoning
    if is_new_turn:
        return hashes
    if not hashes:
        return None
    return earlier | hashes if len(earlier) + len(hashes) <= MOST_HASHES else hashes
