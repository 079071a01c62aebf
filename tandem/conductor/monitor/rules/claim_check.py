"""E2: a final message that presents work as done is held against what the tools have shown (MON-057 to MON-071).

What triggers it is structural, and no wording plays a role. Then the served model is asked: whether its message makes
such a claim, and what the tools used since the newest write say to it. A note goes out where they do not bear it out.

A request later its note is judged by what the model did with it: `fixed`, it wrote and ran something; `ran_no_fix`, it
ran something and had nothing to write, which, with the claim made again, was probably a note too many; `no_run`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tandem.conductor.monitor.actions import Action, Inquiry
from tandem.conductor.monitor.call_runs import Made, calls_made
from tandem.conductor.monitor.events import FinishEvent, MonitorEvent, Task, View
from tandem.conductor.monitor.evidence import Evidence, calls_behind, evidence_of, matches
from tandem.conductor.monitor.tier0 import overridable, register, text

__all__ = ["VERDICTS", "claim_check"]

VERDICTS: Final = (
    "supported",
    "no_run_after_last_write",
    "errors_in_evidence",
    "surprise_unexplained",
    "test_faked",
)
"""What the evidence may amount to, in the order of the letters."""
CLAIM: Final = ("yes", "no")
NOTHING: Final = "none"
SHARE: Final = {"type": "number", "minimum": 0, "maximum": 1}
NAMES: Final = {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}


def labelled(task: Task, view: View) -> tuple[Sequence[MonitorEvent], Mapping[str, Any]]:
    """Judges the notes of earlier requests, and remembers this one's."""
    kept = view.kept(task.id)
    own = [event for event in view.done if event.task == task.id]
    made = calls_made(view.req.messages)
    events: list[MonitorEvent] = []
    open_notes: list[Mapping[str, Any]] = []
    for note in kept.get("open", ()):
        calls = calls_behind(made, note["behind"])
        if own or len(calls) >= task.params["label_calls"]:
            events.append(_label(task, note, calls, claimed=any("verdicts" in event.detail for event in own)))
        else:
            open_notes.append(note)
    noted = next((event for event in own if event.decision == "CONTINUE_HIDDEN"), None)
    if noted is not None:
        behind = made[-1].key if made else ""
        sent = noted.acted == "CONTINUE_HIDDEN"
        open_notes.append({"behind": behind, "verdict": noted.detail["verdict"], "sent": sent})
        if sent:
            return events, {"open": open_notes, "notes": kept.get("notes", 0) + 1}
    return events, {"open": open_notes} if events or noted is not None else {}


@register(
    "claim_check",
    "SP2",
    params={
        "classes": {**NAMES, "description": "Classes of turns that are looked at."},
        "write_tools": {**NAMES, "description": "Patterns of tools that change something."},
        "run_tools": {**NAMES, "description": "Patterns of tools that run something."},
        "claim_question": text(),
        "claim_at": overridable(SHARE),
        "evidence_question": text("since"),
        "admit_at": overridable(SHARE),
        "per_session": {"type": "integer", "minimum": 0, "description": "Notes that a session may get."},
        "label_calls": {"type": "integer", "minimum": 1, "description": "Calls after which a note is judged."},
        "notes": {
            "type": "object",
            "properties": {verdict: text() for verdict in VERDICTS[1:]},
            "required": list(VERDICTS[1:]),
            "additionalProperties": False,
        },
    },
    required=(
        "classes",
        "write_tools",
        "run_tools",
        "claim_question",
        "claim_at",
        "evidence_question",
        "admit_at",
        "per_session",
        "label_calls",
        "notes",
    ),
    doc="A final message claims what the tools have not shown.",
    at_end=labelled,
)
def claim_check(event: FinishEvent, task: Task, view: View) -> Action | Inquiry | None:
    """Once a request, where a message without a call ends a turn in which tools could show something."""
    if not _is_final(event, task, view):
        return None
    made = calls_made(view.req.messages)
    found = evidence_of(made, view.session.calls, task.params["write_tools"], task.params["run_tools"])
    if found is None:
        return None
    detail = {
        "class": view.req.cls,
        "twin": "ran" if found.ran else VERDICTS[1],
        "since": list(found.tools),
        "evidence": list(found.ids),
    }
    if view.req.logprobs:
        return _passed("claim_check(not_asked)", detail)
    if view.kept(task.id).get("notes", 0) >= task.params["per_session"]:
        return _passed("claim_check_exhausted", detail)
    return _asks_for_claim(task, found, detail)


def _is_final(event: FinishEvent, task: Task, view: View) -> bool:
    """Whether it is such a message. One in a constraint has no place for a second one behind it."""
    has_tools = view.req.tools and view.req.tool_choice != "none" and not view.req.constrained
    return bool(
        has_tools
        and view.req.cls in task.params["classes"]
        and not event.inside
        and not event.has_calls
        and event.answer.strip()
        and all(each.task != task.id for each in view.done)
    )


def _asks_for_claim(task: Task, found: Evidence, detail: Mapping[str, Any]) -> Inquiry:
    def then(shares: tuple[float, ...] | None, why: str) -> Action | Inquiry:
        if shares is None:
            return _passed(f"claim_check(error:{why})", detail)
        told = {**detail, "claim": _rounded(CLAIM, shares)}
        if shares[0] < task.params["claim_at"]:
            return _passed("claim_check(no_claim)", told, shares[0])
        return _asks_for_evidence(task, found, told)

    return Inquiry(text=task.params["claim_question"], options=CLAIM, then=then)


def _asks_for_evidence(task: Task, found: Evidence, detail: Mapping[str, Any]) -> Inquiry:
    def then(shares: tuple[float, ...] | None, why: str) -> Action:
        if shares is None:
            return _passed(f"claim_check(error:{why})", detail)
        score, best = max((share, -at) for at, share in enumerate(shares))
        verdict = VERDICTS[-best]
        told = {**detail, "verdicts": _rounded(VERDICTS, shares), "verdict": verdict}
        if verdict == VERDICTS[0]:
            return _passed("claim_check(supported)", told, score)
        if score < task.params["admit_at"]:
            return _passed("claim_check(unsure)", told, score)
        note = task.params["notes"][verdict]
        reason = f"claim_check({verdict})"
        return Action(kind="CONTINUE_HIDDEN", reason=reason, text=note, score=score, detail=told)

    text = task.params["evidence_question"].format(since=", ".join(found.tools) or NOTHING)
    return Inquiry(text=text, options=[verdict.replace("_", " ") for verdict in VERDICTS], then=then)


def _passed(reason: str, detail: Mapping[str, Any], score: float | None = None) -> Action:
    return Action(kind="PASS", reason=reason, score=score, detail=detail)


def _rounded(names: Sequence[str], shares: Sequence[float]) -> dict[str, float]:
    return {name: round(share, 4) for name, share in zip(names, shares, strict=True)}


def _label(task: Task, note: Mapping[str, Any], calls: Sequence[Made], *, claimed: bool) -> MonitorEvent:
    """`claimed`: this request's message claims it again."""
    ran = any(matches(call.tool, task.params["run_tools"]) for call in calls)
    wrote = any(matches(call.tool, task.params["write_tools"]) for call in calls)
    outcome = ("fixed" if wrote else "ran_no_fix") if ran else "no_run"
    return MonitorEvent(
        task=task.id,
        rule=task.rule,
        tier=task.tier,
        sp="label",
        mode=task.mode,
        decision="LABEL",
        acted=None,
        reason=f"claim_outcome({outcome})",
        detail={"verdict": note["verdict"], "sent": note["sent"], "call_count": len(calls), "claimed": claimed},
    )
