"""A supervisor that answers from a table, and a generation under it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeAlias

from tandem.engine.decoding.generation import Generation, ReasoningCap
from tandem.engine.decoding.seams import NOTHING, Close, SafePoint, Seen, Supervisor, Verdict
from tandem.engine.decoding.work import Answer
from tandem.engine.fake import FakeEngine
from tandem.engine.text.closing import closing_ids
from tandem.engine.text.reading.calls import xml_calls
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.text.reading.rules import ReadingRules
from tandem.engine.text.reading.trace import Trace
from tandem.engine.verbs import SamplingRules
from tests.engine.decoding.driving import prompt_of

__all__ = ["Step", "Table", "supervised"]

Step: TypeAlias = Verdict | Callable[[Seen], Verdict]


class Table:
    """Each look at a point takes the next verdict of its list; behind the last there is nothing to do."""

    def __init__(self, answers: Sequence[Step] = (), **acts: Sequence[Step]) -> None:
        self.acts = {name: list(steps) for name, steps in {"answered": answers, **acts}.items()}
        self.points: list[SafePoint] = []
        self.seen: list[Seen] = []
        self.answers: list[tuple[float, ...]] = []
        self.closes: list[Close] = []

    def look(self, point: SafePoint, seen: Seen) -> Verdict:
        self.points.append(point)
        self.seen.append(seen)
        return self._next(point, seen)

    def answered(self, answer: Answer, seen: Seen) -> Verdict:
        self.answers.append(answer.probabilities)
        return self._next("answered", seen)

    def closed(self, close: Close) -> None:
        self.closes.append(close)

    def _next(self, name: str, seen: Seen) -> Verdict:
        steps = self.acts.get(name)
        if not steps:
            return NOTHING
        step = steps.pop(0)
        return step if isinstance(step, Verdict) else step(seen)


def supervised(
    engine: FakeEngine,
    script: dict[str, Any],
    supervisor: Supervisor | None,
    *,
    holds: bool = False,
    single_call: bool = False,
    stops: tuple[str, ...] = (),
    limit: int = 100,
    window: int | None = None,
    logprobs: int | None = None,
    cap: ReasoningCap | int | None = None,
) -> Generation:
    """A chat answer with calls."""
    prompt = prompt_of(engine, script)
    numbers = count()
    return Generation(
        prompt,
        SamplingRules(logprobs=logprobs),
        limit=limit,
        reader=AnswerReader(
            engine.text,
            thinking=prompt.thinking,
            stops=stops,
            stop_scope="answer",
            calls=xml_calls([], live=not holds and not stops, new_id=lambda: f"c{next(numbers)}"),
            single_call=single_call,
            rules=ReadingRules(holds=holds),
            trace=None if supervisor is None else Trace(),
        ),
        end_ids=engine.text.end_ids,
        grid=engine.card.anchor_grid,
        arrived_at=0.0,
        window=window,
        reasoning_cap=ReasoningCap(cap, closing_ids(engine.text)) if isinstance(cap, int) else cap,
        supervisor=supervisor,
    )
