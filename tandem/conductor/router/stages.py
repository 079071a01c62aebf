"""One choice question put to one stage after the other, until one is sure enough (RTR-005 to RTR-008).

The class question and the package question both go this way. Sans-I/O: a `Question` comes out, its `Answer` goes in.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tandem.conductor.router.plan import Answer, Question, StageResult

__all__ = ["CHARS_PER_TOKEN", "Decider", "StageCall", "Stages", "read_answer"]

CHARS_PER_TOKEN = 3.5
"""Where no tokenizer is used."""
NO_ANSWER = "no_answer"
BAD_ANSWER = "bad_answer"


@dataclass(frozen=True, slots=True)
class Decider:
    """What a decision model says of itself; where none is served there is none, and its stage costs nothing."""

    context_tokens: int
    question_tokens: int
    """What the question without the message takes of them."""
    deadline_ms: int = 2_000

    @property
    def chars(self) -> int:
        """Characters of the message that it can read (RTR-012)."""
        return max(int((self.context_tokens - self.question_tokens) * CHARS_PER_TOKEN), 0)


@dataclass(frozen=True, slots=True)
class StageCall:
    """A stage that may be asked, and the probability from which its answer counts."""

    question: Question
    accept: float
    veto: Callable[[StageResult], StageResult] | None = None
    """Looks at an answer before it is measured against `accept` (RTR-015)."""
    is_last_unless_answered: bool = False
    """Without an answer no further stage is asked: its role does not fall back on another (ROL-003)."""


class Stages:
    """`next(None)` first, then with each question's answer; None means that no question is left."""

    def __init__(self, calls: Iterable[StageCall]) -> None:
        self._calls = deque(calls)
        self._asked: StageCall | None = None
        self.results: tuple[StageResult, ...] = ()
        self.accepted: StageResult | None = None
        """The answer that counts."""

    @property
    def last(self) -> StageResult | None:
        """The last stage that had an answer at all."""
        return next((result for result in reversed(self.results) if result.error is None), None)

    def next(self, answer: Answer | None) -> Question | None:
        if self._asked is not None:
            self._take(self._asked, answer or Answer(error=NO_ANSWER))
        if self.accepted is not None or not self._calls:
            self._asked = None
            return None
        self._asked = self._calls.popleft()
        return self._asked.question

    def _take(self, call: StageCall, answer: Answer) -> None:
        result = read_answer(call.question, answer)
        if result.error is None and call.veto is not None:
            result = call.veto(result)
        self.results = (*self.results, result)
        if result.error is not None and call.is_last_unless_answered:
            self._calls.clear()
        if result.confidence is not None and result.confidence >= call.accept:
            self.accepted = result


def read_answer(question: Question, answer: Answer) -> StageResult:
    """The most probable option, the first of equals. What is no distribution over the options counts as no answer."""
    told = {"prompt_tokens": answer.prompt_tokens, "prefilled": answer.prefilled, "reused": answer.reused}
    detail = {name: value for name, value in told.items() if value is not None}
    shares = {option.id: answer.probabilities.get(option.id, 0.0) for option in question.options}
    error = answer.error or (None if _is_distribution(shares) else BAD_ANSWER)
    if error is not None:
        return StageResult(stage=question.stage, ms=answer.ms, error=error, detail=detail)
    label = max(shares, key=shares.__getitem__)
    return StageResult(
        stage=question.stage,
        label=label,
        confidence=shares[label],
        probabilities=shares,
        ms=answer.ms,
        detail=detail,
    )


def _is_distribution(shares: Mapping[str, float]) -> bool:
    values = shares.values()
    return all(math.isfinite(value) and value >= 0 for value in values) and 0 < sum(values) <= 1.001
