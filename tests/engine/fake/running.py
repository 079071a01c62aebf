"""Sequences of the fake engine, opened and run by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tandem.engine.decoding.work import Round, perform
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.fake.slot import FakeSlot
from tandem.engine.text.model import Conversation
from tandem.engine.verbs import Accepted, SamplingRules

__all__ = ["GREEDY", "ids", "one_round", "opened", "text"]

GREEDY = SamplingRules()


def opened(engine: FakeSlot, script: dict[str, Any], *, read: bool = True) -> FakeSeq:
    content = f"@fake {json.dumps(script)}"
    prompt = engine.text.render(Conversation(messages=[{"role": "user", "content": content}]))
    seq = engine.open(prompt)
    while read and seq.read < len(prompt.ids):
        engine.prefill(seq, len(prompt.ids))
    return seq


def one_round(engine: FakeSlot, seq: FakeSeq, rules: SamplingRules = GREEDY, limit: int = 100) -> Accepted:
    result = perform(engine, seq, Round(limit), rules)
    assert isinstance(result, Accepted)
    return result


def ids(engine: FakeEngine, script: dict[str, Any], rules: SamplingRules = GREEDY, count: int = 10) -> list[int]:
    """Up to `count` tokens, an end token the last."""
    seq = opened(engine, script)
    out: list[int] = []
    while len(out) < count and not (out and out[-1] in engine.text.end_ids):
        out += one_round(engine, seq, rules, count - len(out)).ids
    return out


def text(engine: FakeSlot, tokens: Sequence[int]) -> str:
    return b"".join(map(engine.text.piece, tokens)).decode()
