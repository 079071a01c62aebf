"""`force`, `ask`, `snapshot` and `restore` of the torch engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Answer, Ask, Force, Forced, perform
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE
from tests.engine.decoding.engines import (
    GREEDY,
    PROMPT,
    ids_of,
    kept_row,
    read,
    rounds,
    same,
    state_of,
    tiny_engine,
    trace,
)

pytestmark = pytest.mark.usefixtures("kind")

STEPS: dict[str, Callable[[TorchEngine, TorchSequence], object]] = {
    "after prefill": lambda engine, seq: None,
    "after a round": lambda engine, seq: rounds(engine, seq, 1),
    "after rounds": lambda engine, seq: rounds(engine, seq, 3),
    "after a verify": lambda engine, seq: engine.verify([(seq, EMPTY_TREE)]),
    "after a force": lambda engine, seq: engine.force(seq, [1, 2, 3]),
}
"""What may stand before an `ask` or a `snapshot`."""


@pytest.mark.spec("ENG-040")
def test_forced_ids_stand_at_their_positions_as_if_read() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    written = rounds(engine, seq, 3)
    forced = ids_of(40, 5)
    assert perform(engine, seq, Force(tuple(forced), True), GREEDY) == Forced(tuple(forced))
    assert seq.length == 75 + 3 + 40
    after, rows = trace(engine, seq)
    engine.close(seq)
    fresh, fresh_rows = trace(engine, read(engine, [*PROMPT, *written, *forced]))
    assert after == fresh
    assert all((a - b).abs().max() < 1e-4 for a, b in zip(rows, fresh_rows, strict=True))


def test_forcing_nothing_changes_nothing() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    row = kept_row(engine, seq)
    engine.force(seq, [])
    assert torch.equal(kept_row(engine, seq), row)


@pytest.mark.spec("ENG-041")
@pytest.mark.parametrize("before", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("question", [[7], ids_of(45, 3), []], ids=["one id", "over a cut", "no id"])
def test_ask_leaves_everything_bit_equal(
    before: Callable[[TorchEngine, TorchSequence], object], question: list[int]
) -> None:
    plain, asked = tiny_engine(), tiny_engine()
    seq, other = read(plain, PROMPT), read(asked, PROMPT)
    before(plain, seq)
    before(asked, other)
    answer = perform(asked, other, Ask(tuple(question), (3, 9, 11)), GREEDY)
    assert isinstance(answer, Answer)
    assert sum(answer.probabilities) == pytest.approx(1.0)
    assert seq.length == other.length
    assert torch.equal(state_of(plain, seq), state_of(asked, other))
    (ids, rows), (asked_ids, asked_rows) = trace(plain, seq), trace(asked, other)
    assert ids == asked_ids
    assert same(rows, asked_rows)
    assert torch.equal(state_of(plain, seq), state_of(asked, other))


@pytest.mark.spec("ENG-041")
def test_ask_is_the_softmax_over_the_options_of_the_row_after_the_question() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    written = rounds(engine, seq, 2)
    question, options = ids_of(5, 9), (40, 2, 311)
    answer = engine.ask(seq, question, options)
    engine.close(seq)
    row = kept_row(engine, read(engine, [*PROMPT, *written, *question]))
    assert answer == pytest.approx(torch.softmax(row[list(options)], 0).tolist(), abs=1e-5)


@pytest.mark.spec("ENG-083")
@pytest.mark.parametrize("before", STEPS.values(), ids=STEPS)
def test_a_restored_sequence_goes_on_bit_for_bit(before: Callable[[TorchEngine, TorchSequence], object]) -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    before(engine, seq)
    point, length = engine.snapshot(seq), seq.length
    kv = state_of(engine, seq)
    ids, rows = trace(engine, seq)
    engine.force(seq, ids_of(30, 1))
    for _ in range(2):
        engine.restore(seq, point)
        assert seq.length == length
        assert torch.equal(state_of(engine, seq), kv)
        again, again_rows = trace(engine, seq)
        assert again == ids
        assert same(again_rows, rows)
    engine.close(seq)
    # Into a new sequence of the same engine, whose rows another prompt has overwritten.
    engine.close(read(engine, ids_of(100, 8)))
    fresh = engine.open(Prompt.of_client(PROMPT))
    engine.restore(fresh, point)
    assert trace(engine, fresh)[0] == ids
