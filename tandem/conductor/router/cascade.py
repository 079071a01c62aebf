"""The class of a turn: which stages are asked about it, and what becomes of their answers (RTR-002 to RTR-018).

A session's class is what its notes and packages hang on, so it moves on a sure answer alone (`sticky.switch`); its
first one needs no more than the stage's own threshold. A turn that nothing is asked about has its class at once.

Whoever commits the decision to the session keeps the class where `source` is not `default`: a session that fell back
to its profile's class has not been classified yet, so its next message still is its first (RTR-011, RTR-016).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from tandem.conductor.documents import Documents, Profile
from tandem.conductor.router.classes import code_classes, options, session_class, unasked
from tandem.conductor.router.digest import context_line, digest, newest_user_text
from tandem.conductor.router.guard import guarded
from tandem.conductor.router.plan import Answer, ClassDecision, Question, StageResult, TurnKind
from tandem.conductor.router.questions import CLASS_QUESTION, CONTEXT_QUESTION, question_texts
from tandem.conductor.router.reading import reading_line
from tandem.conductor.router.stages import Decider, StageCall, Stages
from tandem.conductor.sessions import SessionView

__all__ = ["ClassCascade", "ClassFacts", "context_reason"]

ContextReason: TypeAlias = Literal["long", "followup"]
INSIDE_DEADLINE_MS = 600_000
"""In the conversation the question's prefill is the turn's own, so no stage timeout cuts it: the request's does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFacts:
    """What the class of a turn is found from."""

    documents: Documents
    profile: Profile
    session: SessionView
    turn: TurnKind
    messages: Sequence[Mapping[str, Any]]
    asks: bool = True
    """False where `decisions.classify` is off or the model's fit asks no questions (FIT-005)."""
    applies: bool = True
    """False where `classify` is in shadow under a plan that is on: what is found goes to `ClassDecision.shadow`."""
    inside: bool = True
    """False for the test box, whose message stands in no conversation (PRF-019)."""
    prompt_tokens: int | None = None
    """Of the prompt; counted only where `context_reason` may need it (RTR-018)."""
    decider: Decider | None = None


def context_reason(facts: ClassFacts) -> ContextReason | None:
    """Why the question is asked inside the conversation; None where it is not (RTR-018)."""
    rules = facts.documents.router.classifier.context_stage
    if rules.mode == "off" or not facts.inside or not facts.asks or facts.turn != "user":
        return None
    if facts.prompt_tokens is not None and facts.prompt_tokens >= rules.min_tokens:
        return "long"
    answered = any(message.get("role") == "assistant" for message in facts.messages)
    return "followup" if rules.followups and answered else None


class ClassCascade:
    """The class question of one turn (`plan.Cascade`)."""

    def __init__(self, facts: ClassFacts) -> None:
        self._facts = facts
        self._known = session_class(facts.documents, facts.session)
        self._text = ""
        self._digests: dict[str, str] = {}
        """What each stage reads."""
        self._extra: dict[str, Any] = {}
        self._stages = Stages(self._calls())

    def next(self, answer: Answer | None) -> Question | ClassDecision:
        """The next question, or the decision, for good."""
        question = self._stages.next(answer)
        if question is not None:
            return question
        found = self._found()
        if self._facts.applies or not found.stages:
            return found
        told = {"class": found.class_id, "confidence": found.confidence, "source": found.source}
        return replace(self._unasked(), stages=found.stages, digest=found.digest, extra=found.extra, shadow=told)

    def _calls(self) -> Iterator[StageCall]:
        facts, router = self._facts, self._facts.documents.router
        offered = options(router)
        if not facts.asks or facts.turn != "user" or len(offered) < 2:
            return
        if reason := context_reason(facts):
            self._extra["context_stage"] = {"reason": reason}
            yield self._inside_call()
            return
        self._text = newest_user_text(facts.messages)
        line = context_line(facts.messages, facts.session) if router.classifier.context_line == "on" else ""
        if line:
            self._extra["context_line"] = line
        if facts.decider is not None and router.classifier.decider.mode == "on":
            yield self._decider_call(facts.decider, line)
        if router.classifier.engine.mode == "on":
            veto = partial(guarded, rules=router.classifier.guard, text=self._text, code_classes=code_classes(router))
            question = self._question("engine", router.classifier.digest_chars, line, router.classifier.timeout_ms)
            yield StageCall(question, router.classifier.engine.accept, veto)

    def _decider_call(self, decider: Decider, line: str) -> StageCall:
        """It waits no longer than the role's budget, and then does what the role falls back on (ROL-003)."""
        documents = self._facts.documents
        role = documents.contracts.get("decider")
        budget = 0 if role is None else role.latency_budget_ms
        deadline = min(budget or decider.deadline_ms, decider.deadline_ms)
        return StageCall(
            self._question("decider", decider.chars, line, deadline),
            documents.router.classifier.decider.accept,
            is_last_unless_answered=role is not None and role.fallback != "next-role",
        )

    def _question(self, stage: Literal["decider", "engine"], chars: int, line: str, deadline_ms: int) -> Question:
        router = self._facts.documents.router
        offered = options(router)
        self._digests[stage] = read = digest(self._text, chars, line)
        text, lettered = question_texts(router.classifier.prompt or CLASS_QUESTION, offered, read)
        return Question(id="class", stage=stage, text=text, lettered=lettered, options=offered, deadline_ms=deadline_ms)

    def _inside_call(self) -> StageCall:
        router = self._facts.documents.router
        rules, offered = router.classifier.context_stage, options(router)
        text, lettered = question_texts(rules.question or CONTEXT_QUESTION, offered)
        question = Question(
            id="class",
            stage="engine_context",
            text=text,
            lettered=lettered,
            options=offered,
            deadline_ms=INSIDE_DEADLINE_MS,
            under_grant=True,
        )
        return StageCall(question, rules.accept)

    def _unasked(self) -> ClassDecision:
        facts = self._facts
        return unasked(facts.documents, facts.profile, facts.session, facts.turn)

    def _found(self) -> ClassDecision:
        """What the answers come to."""
        stages = self._stages
        decision = self._by_answer(stages.accepted) or self._by_lead(stages.last) or self._unasked()
        read = self._digests.get(stages.results[-1].stage) if stages.results else None
        return self._with_reading(replace(decision, stages=stages.results, digest=read, extra=self._extra))

    def _by_answer(self, accepted: StageResult | None) -> ClassDecision | None:
        """The accepted answer's class, where the session has none, has the same one, or it is sure enough (RTR-011)."""
        if accepted is None or accepted.label is None or accepted.confidence is None:
            return None
        switch = self._facts.documents.router.sticky.switch
        if self._known not in (None, accepted.label) and accepted.confidence < switch:
            return None
        return ClassDecision(
            class_id=accepted.label,
            source=accepted.stage,
            confidence=accepted.confidence,
            moved=accepted.label != self._known,
        )

    def _by_lead(self, last: StageResult | None) -> ClassDecision | None:
        """The top class of the first message a session has classified, where it builds and leads (RTR-016)."""
        rules = self._facts.documents.router.classifier.below_accept
        if rules.mode == "default" or self._known is not None or last is None or last.label is None:
            return None
        policy = self._facts.documents.policy(last.label)
        second = max((share for name, share in last.probabilities.items() if name != last.label), default=0.0)
        if policy is None or not policy.builds or (last.confidence or 0.0) - second < rules.margin:
            return None
        return ClassDecision(
            class_id=last.label, source=last.stage, confidence=last.confidence, kept="below_build", moved=True
        )

    def _with_reading(self, decision: ClassDecision) -> ClassDecision:
        """With the reading line's sentence on the turn a class starts (RTR-017)."""
        rules, last = self._facts.documents.router.classifier.reading, self._stages.last
        if not decision.moved or last is None or last.label != decision.class_id:
            return decision
        line = reading_line(rules, decision.class_id, last.probabilities)
        if line is None:
            return decision
        sentence, told = line
        extra = {**decision.extra, "reading": told}
        return replace(decision, reading=sentence if rules.mode == "on" else None, extra=extra)
