"""A plain loop that drives a `Generation` on the fake engine, and what tests need around it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.work import Ended, perform
from tandem.engine.fake import FakeEngine, FakePrompt
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.text.model import Conversation
from tandem.engine.text.reading.deltas import Content, Delta, Finish
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import SamplingRules

__all__ = ["drive", "finish_of", "generation_of", "prompt_of", "run", "text_of"]


def prompt_of(engine: FakeEngine, script: dict[str, Any] | None = None) -> FakePrompt:
    content = "hello" if script is None else f"hello @fake {json.dumps(script)}"
    return engine.text.render(Conversation(messages=[{"role": "user", "content": content}]))


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


def finish_of(deltas: Sequence[Delta]) -> Finish:
    """The `Finish`, which must be the last of the deltas and the only one."""
    [finish] = [delta for delta in deltas if isinstance(delta, Finish)]
    assert deltas[-1] is finish
    return finish
