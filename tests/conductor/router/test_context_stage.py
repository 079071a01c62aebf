"""When the class question is asked inside the conversation, and what becomes of its answer (RTR-018 to RTR-022)."""

from __future__ import annotations

import pytest

from tandem.conductor.documents.router import Classifier, ContextStage
from tandem.conductor.router.cascade import ClassCascade, context_reason
from tandem.conductor.router.plan import Answer
from tests.conductor.router.test_cascade import DECIDER, USER, asked, changed, decided, facts, session, shares

ANSWERED = [USER, {"role": "assistant", "content": "Here."}, USER]


@pytest.mark.spec("RTR-018")
def test_when_the_question_is_asked_inside_the_conversation() -> None:
    on = changed(context_stage=ContextStage(mode="on"))
    assert context_reason(facts(own=on, prompt_tokens=8_192)) == "long"
    assert context_reason(facts(own=on, prompt_tokens=8_191)) is None
    assert context_reason(facts(own=on, messages=ANSWERED, prompt_tokens=100)) == "followup"
    assert context_reason(facts(own=on, messages=ANSWERED)) == "followup"
    no_followups = changed(context_stage=ContextStage(mode="on", followups=False))
    assert context_reason(facts(own=no_followups, messages=ANSWERED, prompt_tokens=100)) is None
    for never in (
        facts(own=on, messages=ANSWERED, turn="tool"),
        facts(own=on, messages=ANSWERED, turn="compaction"),
        facts(own=on, messages=ANSWERED, turn="after_compaction"),
        facts(own=on, messages=ANSWERED, asks=False),
        facts(own=on, messages=ANSWERED, inside=False),
        facts(messages=ANSWERED, prompt_tokens=100_000),
        facts(own=changed(context_stage=Classifier().context_stage), messages=ANSWERED),
    ):
        assert context_reason(never) is None


@pytest.mark.spec("RTR-018", "RTR-019", "RTR-022")
def test_the_question_inside_takes_the_place_of_the_other_stages() -> None:
    on = changed(context_stage=ContextStage(mode="on"))
    cascade = ClassCascade(facts(session("debug"), own=on, messages=ANSWERED, decider=DECIDER))
    question = asked(cascade)
    assert (question.stage, question.under_grant) == ("engine_context", True)
    assert "A: chat - small talk" in question.lettered
    assert "I: three_d - " in question.lettered
    assert USER["content"] not in question.lettered, "the conversation is there already"
    answer = Answer(probabilities=shares(three_d=0.85), ms=31.0, prompt_tokens=9_000, prefilled=700, reused=8_300)
    found = decided(cascade, answer)
    assert (found.class_id, found.source, found.digest) == ("three_d", "engine_context", None)
    assert found.extra["context_stage"] == {"reason": "followup"}
    assert found.stages[0].detail == {"prompt_tokens": 9_000, "prefilled": 700, "reused": 8_300}
    assert found.stages[0].probabilities == shares(three_d=0.85)


@pytest.mark.spec("RTR-022")
@pytest.mark.parametrize(
    "answer",
    [
        Answer(error="engine_context_not_run"),
        Answer(error="engine_failed"),
        Answer(probabilities=shares(three_d=0.54)),
        Answer(probabilities=shares(three_d=0.79)),
    ],
)
def test_a_weak_or_missing_answer_inside_keeps_the_class(answer: Answer) -> None:
    on = changed(context_stage=ContextStage(mode="on"))
    cascade = ClassCascade(facts(session("debug"), own=on, messages=ANSWERED))
    asked(cascade)
    found = decided(cascade, answer)
    assert (found.class_id, found.source) == ("debug", "sticky")
