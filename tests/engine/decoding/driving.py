"""A plain loop that drives a `Generation` on the fake engine, and what tests need around it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from tandem.engine.decoding.generation import Generation, ReasoningCap
from tandem.engine.decoding.work import Ended, perform
from tandem.engine.fake import FakeEngine, FakePrompt
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.text.closing import closing_ids
from tandem.engine.text.model import Conversation
from tandem.engine.text.reading.deltas import Content, Delta, Finish, Reasoning
from tandem.engine.text.reading.reader import AnswerReader, PlainReader
from tandem.engine.verbs import SamplingRules

__all__ = [
    "chat",
    "chat_of",
    "drive",
    "finish_of",
    "generation_of",
    "prompt_of",
    "reasoning_of",
    "run",
    "text_of",
]


def prompt_of(engine: FakeEngine, script: dict[str, Any] | None = None, **template_kwargs: Any) -> FakePrompt:
    content = "hello" if script is None else f"hello @fake {json.dumps(script)}"
    messages = [{"role": "user", "content": content}]
    return engine.text.render(Conversation(messages=messages, template_kwargs=template_kwargs))


def generation_of(
    engine: FakeEngine,
    script: dict[str, Any] | None = None,
    rules: SamplingRules | None = None,
    *,
    limit: int = 100,
    stops: Sequence[str] = (),
    **further: Any,
) -> Generation:
    return Generation(
        prompt_of(engine, script),
        rules or SamplingRules(),
        limit=limit,
        reader=PlainReader(engine.text, stops),
        end_ids=engine.text.end_ids,
        grid=engine.card.anchor_grid,
        arrived_at=0.0,
        **further,
    )


def chat_of(
    engine: FakeEngine,
    script: dict[str, Any],
    rules: SamplingRules | None = None,
    *,
    limit: int = 100,
    cap: int | None = None,
    visible: bool = True,
    stops: Sequence[str] = (),
    stop_scope: Literal["all", "answer"] = "answer",
    template_kwargs: dict[str, Any] | None = None,
    **further: Any,
) -> Generation:
    """A chat answer: read with its reasoning apart, which the closing phrase ends at `cap` tokens."""
    prompt = prompt_of(engine, script, **(template_kwargs or {}))
    return Generation(
        prompt,
        rules or SamplingRules(),
        limit=limit,
        reader=AnswerReader(engine.text, thinking=prompt.thinking, stops=stops, stop_scope=stop_scope),
        end_ids=engine.text.end_ids,
        grid=engine.card.anchor_grid,
        arrived_at=0.0,
        reasoning_cap=None if cap is None else ReasoningCap(cap, closing_ids(engine.text), visible),
        **further,
    )


def chat(script: dict[str, Any], rules: SamplingRules | None = None, **options: Any) -> list[Delta]:
    engine = FakeEngine()
    generation = chat_of(engine, script, rules, **options)
    return drive(engine, engine.open(generation.prompt), generation)


def drive(engine: FakeEngine, seq: FakeSeq, generation: Generation, *, now: float = 0.0) -> list[Delta]:
    """Start it `now` and run it to its end on the engine's simulated clock."""
    engine.take_elapsed()
    generation.start(now)
    deltas: list[Delta] = []
    while not isinstance(work := generation.next(), Ended):
        result = perform(engine, seq, work, generation.rules)
        now += engine.take_elapsed()
        generation.feed(result, now)
        deltas += generation.take_deltas()
    return deltas + generation.take_deltas()


def run(
    script: dict[str, Any] | None = None, rules: SamplingRules | None = None, *, grid: int = 1024, **options: Any
) -> list[Delta]:
    engine = FakeEngine(grid=grid)
    generation = generation_of(engine, script, rules, **options)
    return drive(engine, engine.open(generation.prompt), generation)


def text_of(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Content))


def reasoning_of(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Reasoning))


def finish_of(deltas: Sequence[Delta]) -> Finish:
    """The `Finish`, which must be the last of the deltas and the only one."""
    [finish] = [delta for delta in deltas if isinstance(delta, Finish)]
    assert deltas[-1] is finish
    return finish
