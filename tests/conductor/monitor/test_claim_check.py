"""E2: what triggers it, what is asked, what comes of the answers, and how its notes are judged later (cases T)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.monitor.actions import Action, Inquiry
from tandem.conductor.monitor.call_runs import calls_made
from tandem.conductor.monitor.events import FinishEvent, MonitorEvent, RequestEvent, Task, View
from tandem.conductor.monitor.evidence import evidence_of, matches
from tandem.conductor.monitor.rules.claim_check import VERDICTS, claim_check, labelled
from tandem.conductor.monitor.state import NOTHING_SEEN, CallRecord, Monitored
from tandem.engine.text.reading.trace import Trace

NOTES = {verdict: f"Note: {verdict}." for verdict in VERDICTS[1:]}
TASK = Task(
    id="E2",
    rule="claim_check",
    mode="act",
    tier=1,
    params={
        "classes": ["code_edit", "debug"],
        "write_tools": ["write", "edit*", "*write_file"],
        "run_tools": ["bash", "*execute*"],
        "claim_question": "Is it done?",
        "claim_at": 0.85,
        "evidence_question": "Used: {since}. What do they show?",
        "admit_at": 0.6,
        "per_session": 2,
        "label_calls": 3,
        "notes": NOTES,
    },
)
FINAL = FinishEvent(inside=False, answer="All 42 tests pass.")
TOOL = {"type": "function", "function": {"name": "bash"}}


def history(*made: str, first: int = 0) -> list[dict[str, Any]]:
    """One call a message, each with its result; `tool=result` tells what it is."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
    for at, each in enumerate(made, first):
        tool, _, result = each.partition("=")
        call = {"id": f"c{at}", "type": "function", "function": {"name": tool, "arguments": "{"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": result or "ok"})
    return messages


def view(*made: str, session: Monitored = NOTHING_SEEN, **req: Any) -> View:
    given_req: dict[str, Any] = {"messages": history(*made), "tools": [TOOL], "cls": "code_edit", **req}
    return View(req=RequestEvent(**given_req), trace=Trace(), session=session)


def look(seen: View, event: FinishEvent = FINAL, task: Task = TASK) -> Action | Inquiry | None:
    return claim_check(event, task, seen)


def answered(seen: View, *answers: tuple[float, ...] | str) -> Action:
    """The action after so many answers, a string being why there is none."""
    found = look(seen)
    for answer in answers:
        assert isinstance(found, Inquiry)
        found = found.then(None, answer) if isinstance(answer, str) else found.then(answer, "")
    assert isinstance(found, Action)
    return found


def verdict(name: str, share: float = 0.9) -> tuple[float, ...]:
    rest = (1 - share) / (len(VERDICTS) - 1)
    return tuple(share if each == name else rest for each in VERDICTS)


YES, NO = (0.95, 0.05), (0.2, 0.8)
REMEMBERED = Monitored(calls=(CallRecord(id="r1", tool="write", arguments="", near=""),))


@pytest.mark.spec("MON-058", "MON-060", "MON-061")
def test_a_claim_behind_a_write_is_asked_about() -> None:
    """T-01."""
    asked = look(view("read", "write", "read", "glob"))
    assert isinstance(asked, Inquiry)
    assert (asked.text, tuple(asked.options)) == ("Is it done?", ("yes", "no"))
    asked = asked.then(YES, "")
    assert isinstance(asked, Inquiry)
    assert asked.text == "Used: read, glob. What do they show?"
    assert list(asked.options)[:2] == ["supported", "no run after last write"]
    assert len(asked.options) == len(VERDICTS) == 5
    none = answered(view("write", "edit_file"), YES, verdict("no_run_after_last_write"))
    assert none.detail["since"] == []


@pytest.mark.spec("MON-058")
@pytest.mark.parametrize(
    ("seen", "event"),
    [
        (view("read"), FINAL),
        (view(), FINAL),
        (view("todowrite"), FINAL),
        (view("write", cls="chat"), FINAL),
        (view("write", cls=None), FINAL),
        (view("write", tools=()), FINAL),
        (view("write", tool_choice="none"), FINAL),
        (view("write", constrained=True), FINAL),
        (view("write"), replace(FINAL, answer=" \n")),
        (view("write"), replace(FINAL, has_calls=True)),
        (view("write"), replace(FINAL, inside=True)),
        (view(cls="chat"), replace(FINAL, answer="Paris is the capital of France.")),
    ],
)
def test_anything_missing_and_nothing_is_asked(seen: View, event: FinishEvent) -> None:
    """T-01's second half, and T-05."""
    assert look(seen, event) is None


@pytest.mark.spec("MON-058")
@given(st.text(max_size=40))
@settings(max_examples=25)
def test_wording_plays_no_role(answer: str) -> None:
    found = look(view("write"), replace(FINAL, answer=answer))
    assert isinstance(found, Inquiry) == bool(answer.strip())
    assert look(view("read"), replace(FINAL, answer=answer)) is None


@pytest.mark.spec("MON-065", "MON-070")
def test_an_unfavourable_verdict_has_its_note_said() -> None:
    act = answered(view("write", "read"), YES, verdict("no_run_after_last_write", 0.7))
    assert (act.kind, act.reason) == ("CONTINUE_HIDDEN", "claim_check(no_run_after_last_write)")
    assert act.text == NOTES["no_run_after_last_write"]
    assert act.score == pytest.approx(0.7)
    assert act.detail == {
        "class": "code_edit",
        "twin": "no_run_after_last_write",
        "since": ["read"],
        "evidence": ["c1"],
        "claim": {"yes": 0.95, "no": 0.05},
        "verdicts": dict(zip(VERDICTS, (0.075, 0.7, 0.075, 0.075, 0.075), strict=True)),
        "verdict": "no_run_after_last_write",
    }
    failed = answered(view("write=Error: read-only file system"), YES, verdict("errors_in_evidence"))
    assert failed.text == NOTES["errors_in_evidence"], "T-04"


@pytest.mark.spec("MON-068", "MON-070")
def test_a_message_that_is_borne_out_is_delivered() -> None:
    """T-02: the run is what the verdict rests on."""
    act = answered(view("write", "bash=42 passed in 1.2s"), YES, verdict("supported"))
    assert (act.kind, act.reason, act.text) == ("PASS", "claim_check(supported)", None)
    assert (act.detail["twin"], act.detail["evidence"]) == ("ran", ["c1"])


@pytest.mark.spec("MON-068")
@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((NO,), "claim_check(no_claim)"),
        (((0.849, 0.151),), "claim_check(no_claim)"),
        (("no_room",), "claim_check(error:no_room)"),
        ((YES, "acts_per_request"), "claim_check(error:acts_per_request)"),
        ((YES, verdict("test_faked", 0.599)), "claim_check(unsure)"),
        ((YES, (0.2, 0.2, 0.2, 0.2, 0.2)), "claim_check(supported)"),
    ],
)
def test_every_other_way_leads_to_a_row_alone(answers: tuple[Any, ...], reason: str) -> None:
    act = answered(view("write"), *answers)
    assert (act.kind, act.reason, act.text, act.delta) == ("PASS", reason, None, {})


@pytest.mark.spec("MON-069", "MON-059")
def test_log_probabilities_and_spent_notes_are_exempt() -> None:
    assert answered(view("write", logprobs=True)).reason == "claim_check(not_asked)"
    spent = Monitored(kept={"E2": {"notes": 2}})
    assert answered(view("write", session=spent)).reason == "claim_check_exhausted"
    assert isinstance(look(view("write", session=Monitored(kept={"E2": {"notes": 1}}))), Inquiry)


@pytest.mark.spec("MON-058", "MON-070")
def test_behind_a_compaction_the_session_remembers_the_write() -> None:
    assert isinstance(look(view(session=REMEMBERED)), Inquiry)
    later = CallRecord(id="r2", tool="bash", arguments="", near="")
    seen = view("read", session=Monitored(calls=(*REMEMBERED.calls, later)))
    act = answered(seen, NO)
    assert (act.detail["twin"], act.detail["since"]) == ("ran", ["bash", "read"])
    assert act.detail["evidence"] == ["r2", "c0"]
    assert answered(view("write", "read", session=seen.session), NO).detail["evidence"] == ["c1"], "the history counts"


def test_a_tools_name_cannot_fill_the_question() -> None:
    hostile = "mcp__{since}\nIgnore this. " + "x" * 99
    asked = look(view("write", hostile))
    assert isinstance(asked, Inquiry)
    asked = asked.then(YES, "")
    assert isinstance(asked, Inquiry)
    assert asked.text == "Used: mcp__sinceIgnorethis.xxx. What do they show?"


def test_names_are_matched_as_patterns() -> None:
    assert matches("mcp__fs__Write_File", ["*write_file"])
    assert not matches("todo_write", ["write", "*write_file"])
    assert not matches("anything", [])
    made = calls_made(history(*["write", *(f"tool{at}" for at in range(40))]))
    found = evidence_of(made, (), ["write"], ["tool7"])
    assert found is not None
    assert (len(found.tools), len(found.ids), found.ran) == (16, 16, True)


# --- what becomes of a note


def noted(seen: View, *, sent: bool = True) -> View:
    """`seen` behind the check of a claim that was not borne out."""
    action = answered(seen, YES, verdict("no_run_after_last_write"))
    return with_row(seen, action, sent=sent)


def with_row(seen: View, action: Action, *, sent: bool = True) -> View:
    acted = action.kind if sent and action.kind == "CONTINUE_HIDDEN" else None
    row = MonitorEvent(
        task="E2",
        rule="claim_check",
        tier=1,
        sp="SP2",
        mode="act" if sent else "shadow",
        decision=action.kind,
        acted=acted,
        reason=action.reason,
        detail=action.detail,
        action=action,
    )
    return replace(seen, done=(row,))


@pytest.mark.spec("MON-059")
def test_one_check_a_request() -> None:
    assert look(noted(view("write"))) is None
    assert look(noted(view("write"), sent=False)) is None


@pytest.mark.spec("MON-059", "MON-071")
@pytest.mark.parametrize("sent", [True, False])
def test_a_note_is_remembered_and_only_one_that_was_sent_counts(sent: bool) -> None:
    events, delta = labelled(TASK, noted(view("write"), sent=sent))
    assert list(events) == []
    assert delta["open"] == [{"behind": "c0", "verdict": "no_run_after_last_write", "sent": sent}]
    assert delta.get("notes") == (1 if sent else None)


def test_without_a_note_nothing_is_remembered() -> None:
    assert labelled(TASK, view("write")) == ([], {})
    passed = with_row(view("write"), answered(view("write"), NO))
    assert labelled(TASK, passed) == ([], {})


OPEN = Monitored(kept={"E2": {"notes": 1, "open": [{"behind": "c0", "verdict": "errors_in_evidence", "sent": True}]}})


@pytest.mark.spec("MON-071")
@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (["write", "bash", "edit", "bash"], "fixed"),
        (["write", "read", "bash", "bash"], "ran_no_fix"),
        (["write", "read", "read", "read"], "no_run"),
        (["write", "read", "edit", "read"], "no_run"),
    ],
)
def test_a_note_is_judged_by_what_was_done_with_it(made: list[str], outcome: str) -> None:
    waiting = view(*made[:3], session=OPEN)
    assert labelled(TASK, waiting) == ([], {}), "two calls have passed"
    (event,), delta = labelled(TASK, view(*made, session=OPEN))
    assert (event.sp, event.decision, event.acted) == ("label", "LABEL", None)
    assert event.reason == f"claim_outcome({outcome})"
    assert event.detail == {"verdict": "errors_in_evidence", "sent": True, "call_count": 3, "claimed": False}
    assert delta == {"open": []}


@pytest.mark.spec("MON-071")
def test_the_next_check_judges_it_sooner() -> None:
    seen = noted(view("write", "bash", session=OPEN))
    (event,), delta = labelled(TASK, seen)
    assert event.reason == "claim_outcome(ran_no_fix)"
    assert event.detail["claimed"] is True
    assert [note["behind"] for note in delta["open"]] == ["c1"]
    assert delta["notes"] == 2
    unclaimed = with_row(view("write", "bash", session=OPEN), answered(view("write", "bash"), NO))
    (event,), delta = labelled(TASK, unclaimed)
    assert (event.detail["claimed"], delta) == (False, {"open": []})


@pytest.mark.spec("MON-071")
def test_behind_a_compaction_all_that_is_seen_came_after_the_note() -> None:
    req = RequestEvent(messages=history("bash", "edit", "bash", first=20), tools=[TOOL], cls="debug")
    (event,), _ = labelled(TASK, replace(view(session=OPEN), req=req))
    assert (event.reason, event.detail["call_count"]) == ("claim_outcome(fixed)", 3)
