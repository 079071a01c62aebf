"""SP4: notes, a budget or an end before anything is read, and notes that a router adds (MON-034, MON-037, MON-042)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.case import Case
from tandem.conductor.monitor.record import Finding
from tandem.conductor.router.notes import GAP, text_hash
from tandem.engine.text.reading.splitter import CLOSER

__all__ = ["adopted", "planned"]

ADOPTED: Final = "PROMPT_TAIL_NOTE"


def planned(case: Case) -> list[Action]:
    """What is to be done of the tasks' findings, each with its final text.

    Of several notes the first in the policy's order is given, and the others wait: nothing of them is remembered
    (MON-119). One that is only journaled has those that are given not wait. An end is all that is done.
    """
    found: list[Finding] = []
    noted: set[str] = set()
    for task in case.tasks:
        action = case.requested(task)
        is_note = action is not None and action.kind == "PROMPT_TAIL_NOTE"
        if is_note and ("act" in noted or task.mode in noted):
            continue
        finding = case.screened(task, "SP4", action)
        if is_note:
            noted.add(task.mode)
        if finding is None:
            continue
        if finding.action.kind == "GIVE_UP":
            for each in found:
                case.record.passed(each, "ended")
            end = case.give_up(finding).end
            return [replace(finding.action, text="" if end is None else end.sentence)]
        found.append(finding)
    acts = [_budget(case, each) if each.action.kind == "SET_THINK_BUDGET" else _note(case, each) for each in found]
    return [act for done in acts for act in done]


def adopted(case: Case, action: Action, task: str) -> bool:
    """Whether a router's note may stay: it is an act (MON-042). In shadow the monitor has no say in it."""
    cap = case.acts.reached
    acts = case.mode == "on"
    left_out = acts and cap is not None
    if acts and not left_out:
        case.acts.add(ADOPTED, action.text)
    would = {"would_cap": cap} if cap is not None and not acts else {}
    event = case.event(
        task=task,
        sp="SP4",
        decision=action.kind,
        acted=action.kind if acts and not left_out else None,
        reason="note.cap" if left_out else action.reason,
        score=action.score,
        text=action.text,
        hidden_tokens=0 if left_out or not acts else _tokens(case, action.text),
        detail={**action.detail, **would},
        action=action,
    )
    case.record.note(event)
    return not left_out


def _budget(case: Case, finding: Finding) -> list[Action]:
    action = finding.action
    if action.budget is None or action.budget < 0:
        case.record.passed(finding, "bad_action")
        return []
    text = case.setup.texts["vendor_close"] if action.text is None else action.text
    if action.budget and CLOSER not in text:
        case.record.passed(finding, "bad_text")
        return []
    # Beyond a cap it stays: a shorter thought harms nobody (MON-040).
    if case.acts.reached is None:
        case.acts.add(action.kind, None)
    case.record.found(finding, acted=action.kind)
    return [replace(action, text=text if action.budget else None)]


def _note(case: Case, finding: Finding) -> list[Action]:
    """The note; a budget that comes with it stays where the note is left out."""
    action = finding.action
    budget = [] if action.budget is None else [replace(action, kind="SET_THINK_BUDGET", text=None)]
    tokens = _tokens(case, GAP + action.text) if action.text else 0
    if (why := _left_out(case, action.text, tokens)) is not None:
        case.record.found(finding, reason=why, detail={**action.detail, "finding": action.reason})
        return budget
    case.acts.add(action.kind, action.text)
    case.record.found(finding, acted=action.kind, text=action.text, hidden_tokens=tokens)
    return [action, *budget]


def _left_out(case: Case, text: str | None, tokens: int) -> str | None:
    """Why a note of so many tokens is not given (MON-034, MON-040)."""
    req, window = case.req, case.setup.window
    if not case.has_plan:
        return "note.no_plan"
    if req.messages and req.messages[-1].get("role") == "assistant":
        return "note.assistant"
    if not text:
        return "note.empty"
    if text_hash(text) in req.noted:
        return "note.there"
    if not req.has_place:
        return "note.no_place"
    room = window - 1 - req.prompt_tokens if req.note_room is None and window else req.note_room
    if room is not None and tokens > room:
        return "note.window"
    return None if case.acts.reached is None else "note.cap"


def _tokens(case: Case, text: str | None) -> int:
    return len(case.setup.tok.encode(text)) if text else 0
