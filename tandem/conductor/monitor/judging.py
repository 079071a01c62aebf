"""SP3: what an answer holds goes out, repaired or not, or is written again, or the turn ends (MON-075 to MON-083)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tandem.conductor.monitor.actions import Action, ActionKind
from tandem.conductor.monitor.case import Case
from tandem.conductor.monitor.events import TaskMode
from tandem.conductor.monitor.forcing import NoWay, rewriting
from tandem.conductor.monitor.held_set import CallFinding, call_events, is_cut_by_stop, repaired
from tandem.engine.decoding.seams import NOTHING, Seen, Verdict
from tandem.engine.text.reading.deltas import FinishReason
from tandem.engine.text.reading.held import Held

__all__ = ["judge"]

CHECKS = "calls"
"""Names the row of an answer in which no check found anything."""


def judge(
    case: Case, items: Sequence[Held], seen: Seen, *, ended: FinishReason | None, most: TaskMode = "act"
) -> Verdict:
    """What is done with `items`, all that the answer holds. `most` is `shadow` where they are not held at all."""
    if not items:
        return NOTHING
    before = len(case.record.done)
    heard: set[tuple[str, int]] = set()
    findings = list(_findings(case, items, seen, ended, most, heard))
    findings += _of_repaired(case, findings, items, seen, ended, most, heard)
    for kind in ("GIVE_UP", "REGENERATE_CALL"):
        chosen = [each for each in findings if _kind(each) == kind]
        if chosen:
            verdict = _ended(case, chosen, seen) if kind == "GIVE_UP" else _rewritten(case, chosen, items, seen, ended)
            if verdict is not None:
                return verdict
    verdict = _repaired(case, [each for each in findings if _kind(each) == "REPAIR_CALL"], items, seen)
    is_clean = len(case.record.done) == before and case.setup.policy.tool_passes == "on"
    if is_clean and case.tasks_at("SP3"):
        case.record.note(case.event(task=CHECKS, sp="SP3", decision="COUNTS", detail={"calls": len(items)}))
    return verdict


def _findings(
    case: Case,
    items: Sequence[Held],
    seen: Seen,
    ended: FinishReason | None,
    most: TaskMode,
    heard: set[tuple[str, int]],
) -> Iterable[CallFinding]:
    """What may be acted on, task by task; the rest is journaled. Who has spoken of an item is `heard` of it, once."""
    events = call_events(items, case.req.tools, ended, seen.position)
    for task in case.tasks_at("SP3"):
        pairs = [pair for pair in zip(events, items, strict=True) if (task.id, pair[1].index) not in heard]
        for event, item in pairs:
            action = case.answered(task, "SP3", event)
            if action is not None and action.kind != "PASS" and is_cut_by_stop(event):
                action = Action(kind="PASS", reason="cut_by_stop", detail=action.detail)
            if action is not None:
                heard.add((task.id, item.index))
            finding = case.screened(task, "SP3", action, most, position=seen.position)
            if finding is not None:
                yield CallFinding(item, finding)


def _of_repaired(
    case: Case,
    found: Sequence[CallFinding],
    items: Sequence[Held],
    seen: Seen,
    ended: FinishReason | None,
    most: TaskMode,
    heard: set[tuple[str, int]],
) -> Iterable[CallFinding]:
    """What is found of the set as it would go out repaired: calls that only a repair can read nobody has judged yet."""
    after = repaired(items, _repairs(found))
    if after == tuple(items):
        return ()
    return [each for each in _findings(case, after, seen, ended, most, heard) if _kind(each) != "REPAIR_CALL"]


def _repairs(found: Iterable[CallFinding]) -> dict[int, Mapping[str, Any]]:
    """What repairs say, by the items' indexes."""
    return {each.item.index: each.finding.action.detail for each in found if _kind(each) == "REPAIR_CALL"}


def _kind(found: CallFinding) -> ActionKind:
    return found.finding.action.kind


def _ended(case: Case, chosen: Sequence[CallFinding], seen: Seen) -> Verdict:
    return case.give_up(chosen[0].finding, position=seen.position)


def _rewritten(
    case: Case, chosen: Sequence[CallFinding], items: Sequence[Held], seen: Seen, ended: FinishReason | None
) -> Verdict | None:
    """The set is dropped and written again; None: it goes out after all."""
    texts = _reminders(case, chosen, items)
    why: str | None = None
    try:
        made = rewriting(case.setup, texts, seen, case.trace.since_block) if ended is None else None
    except NoWay as no:
        for each in chosen:
            case.record.passed(each.finding, str(no))
        return None
    if made is None:
        why = f"ended({ended})"
    elif (cap := case.acts.reached) is not None:
        why = f"cap({cap})"
    elif case.acts.is_repeat("REGENERATE_CALL", made.text):
        why = "repeated"
    if why is not None or made is None:
        return _without_rewriting(case, chosen, seen, why or "")
    case.acts.add("REGENERATE_CALL", made.text)
    acted: set[str] = set()
    for at, each in enumerate(chosen):
        # One rewrite is one act of each task, however many calls it found.
        is_first = each.finding.task.id not in acted
        acted.add(each.finding.task.id)
        case.record.found(
            each.finding,
            acted="REGENERATE_CALL" if is_first else None,
            text=each.finding.action.text,
            hidden_tokens=made.hidden if at == 0 else 0,
            position=seen.position,
        )
    return Verdict(works=made.works, drop=True)


def _without_rewriting(case: Case, chosen: Sequence[CallFinding], seen: Seen, why: str) -> Verdict | None:
    """A finding ends the turn, save those of tasks that let calls go (MON-078, MON-097)."""
    strict = [each for each in chosen if not case.rule(each.finding.task).lets_go]
    if strict:
        return case.give_up(strict[0].finding, why, position=seen.position)
    for each in chosen:
        released = why.removeprefix("cap(").removesuffix(")") if why.startswith("cap(") else why
        case.record.passed(each.finding, f"released({released})")
    return None


def _repaired(case: Case, chosen: Sequence[CallFinding], items: Sequence[Held], seen: Seen) -> Verdict:
    for each in chosen:
        if (cap := case.acts.reached) is not None:
            return case.give_up(each.finding, f"cap({cap})", position=seen.position)
        case.acts.add("REPAIR_CALL", None)
        case.record.found(each.finding, acted="REPAIR_CALL", position=seen.position)
    if not chosen:
        return NOTHING
    return Verdict(release=repaired(items, _repairs(chosen)))


def _reminders(case: Case, chosen: Sequence[CallFinding], items: Sequence[Held]) -> list[str]:
    """What the model reads of each call: what was found about it; of a call without a finding, all that was found."""
    default = case.setup.texts["give_up"]
    found: dict[int, list[str]] = {}
    for each in chosen:
        found.setdefault(each.item.index, []).append(each.finding.action.text or default)
    everything = "\n".join(dict.fromkeys(text for texts in found.values() for text in texts))
    return ["\n".join(dict.fromkeys(found.get(item.index, ()))) or everything for item in items]
