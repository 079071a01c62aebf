"""A question before a turn leaves no trace in the turn."""

from __future__ import annotations

import math

import pytest
import torch

from tandem.engine.decoding.asking import ask_in_prompt
from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeEngine
from tandem.engine.text.prompt import Prompt
from tests.engine.decoding.engines import GRID, ids_of, kept_row, read, state_of, tiny_engine, trace

pytestmark = pytest.mark.usefixtures("kind")

TURN = ids_of(3 * GRID + 7)
QUESTION = ids_of(5, seed=9)
OPTIONS = (3, 5, 8)


@pytest.mark.spec("ENG-042")
@pytest.mark.parametrize("parting", [1, GRID - 1, GRID, 2 * GRID + 3, 3 * GRID, len(TURN)])
def test_a_turn_after_a_question_is_the_turn_without_one(parting: int) -> None:
    asked, plain = tiny_engine(), tiny_engine()
    shares = ask_in_prompt(asked, Prompt.of_client(TURN), parting, QUESTION, OPTIONS)
    assert math.isclose(sum(shares), 1.0)
    row = kept_row(plain, other := read(plain, [*TURN[:parting], *QUESTION]))
    assert torch.allclose(torch.tensor(shares).float(), torch.softmax(row[list(OPTIONS)], dim=0), atol=1e-6)
    plain.close(other)
    plain.clear()
    seq, fresh = read(asked, TURN), read(plain, TURN)
    assert seq.resumed == parting // GRID * GRID, "the turn goes on at the grid line below"
    assert torch.equal(kept_row(asked, seq), kept_row(plain, fresh))
    assert torch.equal(state_of(asked, seq), state_of(plain, fresh))
    assert seq.anchors.all[-1] == fresh.anchors.all[-1]
    assert trace(asked, seq)[0] == trace(plain, fresh)[0]


@pytest.mark.spec("ENG-042")
def test_nothing_stays_open_after_a_fault() -> None:
    engine = tiny_engine()
    with pytest.raises(EngineError):
        ask_in_prompt(engine, Prompt.of_client(TURN), 40, QUESTION, (10**6,))
    assert ask_in_prompt(engine, Prompt.of_client(TURN), 40, QUESTION, OPTIONS)


def test_the_fake_answers_too() -> None:
    engine = FakeEngine()
    prompt = engine.text.read("one two three")
    assert ask_in_prompt(engine, prompt, 2, engine.text.encode("yes?"), (1, 2)) == (0.5, 0.5)
    assert engine.state()["open_sequences"] == 0


@pytest.mark.parametrize(("parting", "question"), [(0, QUESTION), (len(TURN) + 1, QUESTION), (5, [])])
def test_what_cannot_be_asked(parting: int, question: list[int]) -> None:
    with pytest.raises(ValueError, match="parting point"):
        ask_in_prompt(tiny_engine(), Prompt.of_client(TURN), parting, question, OPTIONS)
