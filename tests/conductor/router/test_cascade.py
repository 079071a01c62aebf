"""Stage after stage to a class, and what a session's class does with the answers."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tandem.conductor.documents import Documents, Profile, Roles
from tandem.conductor.documents.router import (
    BelowAccept,
    EngineStage,
    Guard,
    Policy,
    Reading,
    Router,
    Stage,
)
from tandem.conductor.router.cascade import ClassCascade, ClassFacts
from tandem.conductor.router.classes import default_class, session_class
from tandem.conductor.router.plan import Answer, ClassDecision, Question, TurnKind
from tandem.conductor.router.stages import Decider
from tandem.conductor.sessions import SessionView
from tests.conductor.documents.samples import documents

DAY = datetime.date(2026, 1, 2)
USER = {"role": "user", "content": "build me a house of cubes"}
PROFILE = documents().profiles["coding"]
DECIDER = Decider(context_tokens=512, question_tokens=192)


def session(class_id: str | None = None, confidence: float | None = 0.9) -> SessionView:
    return SessionView(key="c:a", first_date=DAY, class_id=class_id, confidence=confidence if class_id else None)


def changed(**classifier: Any) -> Documents:
    """The shipped documents with other values in the router's `classifier`."""
    own, router = documents(), documents().router
    replaced = msgspec.structs.replace(router, classifier=msgspec.structs.replace(router.classifier, **classifier))
    return with_router(own, replaced)


def with_router(own: Documents, router: Router) -> Documents:
    return Documents(**{name: getattr(own, name) for name in own.__dataclass_fields__} | {"router": router})


def with_decider(**change: Any) -> Documents:
    own = documents()
    role = msgspec.structs.replace(own.roles.roles["decider"], **change)
    return replace(own, roles=Roles(roles={**own.roles.roles, "decider": role}))


def facts(
    view: SessionView | None = None,
    *,
    messages: Sequence[Mapping[str, Any]] = (USER,),
    turn: TurnKind = "user",
    own: Documents | None = None,
    profile: Profile = PROFILE,
    **more: Any,
) -> ClassFacts:
    return ClassFacts(
        documents=own or documents(), profile=profile, session=view or session(), turn=turn, messages=messages, **more
    )


def shares(**named: float) -> dict[str, float]:
    """A distribution: what is not named is spread over the other classes."""
    ids = [one.id for one in documents().router.classes if not one.structural]
    rest = (1 - sum(named.values())) / max(len(ids) - len(named), 1)
    return {name: named.get(name, rest) for name in ids}


def asked(cascade: ClassCascade, answer: Answer | None = None) -> Question:
    step = cascade.next(answer)
    assert isinstance(step, Question)
    return step


def decided(cascade: ClassCascade, answer: Answer | None = None) -> ClassDecision:
    step = cascade.next(answer)
    assert isinstance(step, ClassDecision)
    assert cascade.next(None) == step, "a decision stands"
    return step


def by_engine(given: ClassFacts, **named: float) -> ClassDecision:
    cascade = ClassCascade(given)
    assert asked(cascade).stage == "engine"
    return decided(cascade, Answer(probabilities=shares(**named)))


@pytest.mark.spec("ROL-003")
@pytest.mark.parametrize(("budget", "waits"), [(700, 700), (0, 2_000), (9_000, 2_000)])
def test_a_decider_has_no_more_time_than_its_role(budget: int, waits: int) -> None:
    assert asked(ClassCascade(facts(own=with_decider(latency_budget_ms=budget), decider=DECIDER))).deadline_ms == waits


@pytest.mark.spec("ROL-003")
@pytest.mark.parametrize(("fallback", "goes_on"), [("next-role", True), ("PASS", False), ("skip", False)])
def test_past_its_time_the_role_says_who_is_asked_next(fallback: str, goes_on: bool) -> None:
    cascade = ClassCascade(facts(session("debug"), own=with_decider(fallback=fallback), decider=DECIDER))
    assert asked(cascade).stage == "decider"
    late = Answer(error="decider_timeout")
    if goes_on:
        assert asked(cascade, late).stage == "engine"
    else:
        assert decided(cascade, late).class_id == "debug"


@pytest.mark.spec("RTR-005")
def test_without_a_decision_model_its_stage_is_skipped_at_no_cost() -> None:
    cascade = ClassCascade(facts())
    assert asked(cascade).stage == "engine"
    found = decided(cascade, Answer(probabilities=shares(code_edit=0.9)))
    assert [result.stage for result in found.stages] == ["engine"]


@pytest.mark.spec("RTR-005")
def test_the_decider_comes_first_and_counts_from_080() -> None:
    cascade = ClassCascade(facts(decider=DECIDER))
    assert asked(cascade).stage == "decider"
    found = decided(cascade, Answer(probabilities=shares(debug=0.80), ms=2.5))
    assert (found.class_id, found.source, found.confidence) == ("debug", "decider", 0.80)
    cascade = ClassCascade(facts(decider=DECIDER))
    asked(cascade)
    assert asked(cascade, Answer(probabilities=shares(debug=0.79))).stage == "engine"
    found = decided(cascade, Answer(probabilities=shares(code_edit=0.5)))
    assert (found.class_id, found.source) == ("code_edit", "engine")
    assert [result.label for result in found.stages] == ["debug", "code_edit"]


@pytest.mark.spec("RTR-001", "RTR-006", "RTR-027")
def test_the_engine_is_asked_over_every_class_that_no_shape_gives() -> None:
    question = asked(ClassCascade(facts()))
    offered = [one for one in documents().router.classes if not one.structural]
    assert [(option.id, option.description) for option in question.options] == [
        (one.id, one.description) for one in offered
    ]
    assert "summarize" not in question.text
    assert question.deadline_ms == 8_000
    assert not question.under_grant
    assert USER["content"] in question.text
    found = by_engine(facts(), code_edit=0.45)
    assert (found.class_id, found.source, found.confidence, found.moved) == ("code_edit", "engine", 0.45, True)
    assert by_engine(facts(), chat=0.44).source == "default"
    absent = changed(engine=EngineStage())
    assert by_engine(facts(own=absent), analysis=0.54).source == "default", "the built-in threshold is 0.55"


@pytest.mark.spec("RTR-012")
def test_every_stage_reads_a_digest_of_its_own_size() -> None:
    long = {"role": "user", "content": "h" * 9_000 + "t" * 9_000}
    cascade = ClassCascade(facts(messages=[long], decider=DECIDER))
    assert DECIDER.chars == 1_120
    text = asked(cascade).text
    assert text.count("h" * 280) == 1
    assert "h" * 281 not in text
    text = asked(cascade, Answer(error="decider_timeout")).text
    assert "h" * 500 in text
    assert "h" * 501 not in text
    found = decided(cascade, Answer(error="engine_timeout"))
    assert len(found.digest or "") == 2_000


@pytest.mark.spec("RTR-014", "RTR-028", "RTR-009")
@pytest.mark.parametrize("error", ["engine_timeout", "engine_busy", "engine_failed"])
def test_a_stage_without_an_answer_is_told_and_the_turn_goes_on(error: str) -> None:
    cascade = ClassCascade(facts(session("debug")))
    asked(cascade)
    found = decided(cascade, Answer(error=error, ms=8_000.0))
    assert (found.class_id, found.source, found.moved) == ("debug", "sticky", False)
    [stage] = found.stages
    assert (stage.error, stage.label, stage.ms, stage.probabilities) == (error, None, 8_000.0, {})


@pytest.mark.parametrize("probabilities", [{}, {"chat": float("nan")}, {"chat": -1.0}, {"chat": 3.0}, {"other": 1.0}])
def test_what_is_no_distribution_counts_as_no_answer(probabilities: dict[str, float]) -> None:
    cascade = ClassCascade(facts())
    asked(cascade)
    found = decided(cascade, Answer(probabilities=probabilities))
    assert (found.source, found.stages[0].error) == ("default", "bad_answer")
    cascade = ClassCascade(facts())
    asked(cascade)
    assert decided(cascade).stages[0].error == "no_answer"


@pytest.mark.spec("RTR-007", "RTR-011")
def test_a_session_moves_on_a_sure_answer_alone() -> None:
    known = facts(session("debug", 0.6))
    kept = by_engine(known, writing=0.79)
    assert (kept.class_id, kept.source, kept.confidence, kept.moved) == ("debug", "sticky", 0.6, False)
    moved = by_engine(known, writing=0.80)
    assert (moved.class_id, moved.source, moved.moved) == ("writing", "engine", True)
    same = by_engine(known, debug=0.5)
    assert (same.class_id, same.source, same.confidence, same.moved) == ("debug", "engine", 0.5, False)


@pytest.mark.spec("RTR-007", "PRF-018")
def test_who_has_no_class_and_no_answer_gets_the_profiles() -> None:
    assert by_engine(facts(), chat=0.3).class_id == "code_edit"
    assert by_engine(facts(profile=documents().profiles["chat"]), analysis=0.3).class_id == "chat"
    unnamed = documents().profiles["tools"]
    assert unnamed.routing.default_class is None
    assert default_class(documents(), unnamed) == "chat", "the router's first, so that a plan always has one"


@pytest.mark.spec("RTR-016")
def test_the_first_message_keeps_a_class_that_builds_and_leads() -> None:
    kept = by_engine(facts(), three_d=0.378, chat=0.2)
    assert (kept.class_id, kept.kept, kept.source, kept.confidence) == ("three_d", "below_build", "engine", 0.378)
    assert kept.moved
    assert by_engine(facts(), three_d=0.378, chat=0.29).source == "default", "it does not lead by 0.1"
    assert by_engine(facts(), writing=0.378, chat=0.2).source == "default", "writing builds nothing"
    assert by_engine(facts(session("chat")), three_d=0.378, chat=0.2).class_id == "chat", "not the first"
    off = changed(below_accept=BelowAccept())
    assert by_engine(facts(own=off), three_d=0.378, chat=0.2).source == "default"


@pytest.mark.spec("RTR-015")
def test_the_guard_comes_before_the_threshold_and_the_switch_bar() -> None:
    letter = [{"role": "user", "content": "Write a letter to the council"}]
    vetoed = by_engine(facts(messages=letter), code_edit=0.6, writing=0.3)
    assert (vetoed.source, vetoed.class_id) == ("default", "code_edit"), "0.3 reaches no threshold"
    assert vetoed.stages[0].guard
    sure = changed(engine=EngineStage(accept=0.3))
    assert by_engine(facts(messages=letter, own=sure), code_edit=0.6, writing=0.3).class_id == "writing"
    known = facts(session("debug"), messages=letter, own=sure)
    assert by_engine(known, code_edit=0.6, writing=0.3).source == "sticky"
    off = changed(guard=Guard(mode="off"))
    assert by_engine(facts(messages=letter, own=off), code_edit=0.6, writing=0.3).class_id == "code_edit"


@pytest.mark.spec("RTR-017")
def test_the_reading_line_is_for_the_turn_a_class_starts() -> None:
    doubt = {"three_d": 0.6, "design_ui": 0.3}
    found = by_engine(facts(), **doubt)
    assert found.reading is not None
    assert found.extra["reading"]["other"] == "design_ui"
    assert by_engine(facts(session("three_d")), **doubt).reading is None
    shadow = by_engine(facts(own=changed(reading=Reading(mode="shadow"))), **doubt)
    assert shadow.reading is None
    assert shadow.extra["reading"]["mode"] == "shadow"


@pytest.mark.spec("RTR-002", "RTR-003", "SES-019", "JRN-004")
@pytest.mark.parametrize(
    ("turn", "source", "kept"),
    [
        ("tool", "structural", "tool_results"),
        ("media", "structural", "tool_media"),
        ("after_compaction", "sticky", "after_compaction"),
        ("assistant", "sticky", None),
    ],
)
def test_turns_that_ask_nothing_keep_the_class(turn: TurnKind, source: str, kept: str | None) -> None:
    found = decided(ClassCascade(facts(session("three_d"), turn=turn, decider=DECIDER)))
    assert (found.class_id, found.source, found.kept, found.stages) == ("three_d", source, kept, ())
    found = decided(ClassCascade(facts(turn=turn)))
    assert (found.class_id, found.source, found.kept) == ("code_edit", "default", None)


@pytest.mark.spec("SES-016", "RTR-001")
def test_a_compaction_has_the_structural_class() -> None:
    found = decided(ClassCascade(facts(session("debug"), turn="compaction")))
    assert (found.class_id, found.source, found.moved) == ("summarize", "structural", False)


@pytest.mark.spec("PRF-015", "FIT-008")
def test_who_asks_nothing_has_the_sessions_class() -> None:
    assert decided(ClassCascade(facts(session("debug"), asks=False))).class_id == "debug"
    assert decided(ClassCascade(facts(asks=False))).class_id == "code_edit"
    quiet = changed(engine=EngineStage(mode="off"), decider=Stage(mode="off"))
    assert decided(ClassCascade(facts(own=quiet, decider=DECIDER))).source == "default"


def test_a_class_the_router_has_lost_is_no_class() -> None:
    assert session_class(documents(), session("gone")) is None
    assert session_class(documents(), session("summarize")) is None
    assert by_engine(facts(session("gone")), writing=0.5).class_id == "writing"
    one = with_router(
        documents(), Router(classes=documents().router.classes[:1], policies={"chat": Policy(effort="low")})
    )
    assert decided(ClassCascade(facts(own=one))).class_id == "chat", "one class needs no question"


@pytest.mark.spec("PRF-011")
def test_in_shadow_the_found_class_is_told_and_the_sessions_stands() -> None:
    found = by_engine(facts(session("debug"), applies=False), three_d=0.9)
    assert (found.class_id, found.source, found.moved, found.reading) == ("debug", "sticky", False, None)
    assert found.shadow == {"class": "three_d", "confidence": 0.9, "source": "engine"}
    assert [stage.label for stage in found.stages] == ["three_d"]


@pytest.mark.spec("RTR-013", "RTR-014")
def test_the_context_line_is_off_and_follows_the_digest_when_on() -> None:
    assert "compaction=" not in asked(ClassCascade(facts())).text
    cascade = ClassCascade(facts(session("debug"), own=changed(context_line="on")))
    line = "class=debug@0.90 tools=none files=none checker=none compaction=no"
    assert f"{USER['content']}\n{line}\n" in asked(cascade).text
    found = decided(cascade, Answer(error="engine_timeout"))
    assert found.extra["context_line"] == line
    assert found.digest == f"{USER['content']}\n{line}"
