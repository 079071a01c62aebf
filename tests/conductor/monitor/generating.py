"""A generation of the fake engine under a supervisor, or under none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tandem.conductor.monitor.supervisor import Supervisor
from tandem.engine.decoding.generation import Generation
from tandem.engine.fake import FakeEngine, FakePrompt
from tandem.engine.text.reading.calls import xml_calls
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.text.reading.rules import ReadingRules
from tandem.engine.verbs import SamplingRules

__all__ = ["generation_under"]


def generation_under(
    supervisor: Supervisor | None,
    engine: FakeEngine,
    prompt: FakePrompt,
    tools: Sequence[Mapping[str, Any]],
    rules: ReadingRules,
    *,
    live: bool = False,
    **further: Any,
) -> Generation:
    """`live`: calls go out as they are written; `further` is the generation's own, its limit first of all."""
    reader = AnswerReader(
        engine.text,
        thinking=prompt.thinking,
        calls=xml_calls(tools, live=live, new_id=lambda: "id"),
        rules=rules,
        trace=None if supervisor is None else supervisor.trace,
    )
    return Generation(
        prompt,
        SamplingRules(),
        reader=reader,
        end_ids=engine.text.end_ids,
        grid=engine.card.anchor_grid,
        arrived_at=0.0,
        supervisor=supervisor,
        **{"window": engine.card.max_len, **further},
    )
