"""Rounds that go wrong half-way: rows that are out of date, a commit that fails, and what is left of the sequence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.tree import chain
from tandem.engine.errors import EngineError
from tandem.engine.verbs import EMPTY_TREE, Tree
from tests.engine.decoding.engines import GREEDY, PROMPT, read, rounds, tiny_engine
from tests.engine.models.memory import VOCAB

pytestmark = pytest.mark.usefixtures("kind")


@pytest.fixture(scope="module")
def text(kind: str) -> list[int]:
    engine = tiny_engine()
    return rounds(engine, read(engine, PROMPT), 20)


def beside(text: Sequence[int], at: int) -> Tree:
    """The plain answer's next two tokens, on the second path of a tree: a commit of them moves rows."""
    return Tree(((text[at] + 1) % VOCAB, text[at], text[at + 1]), (-1, -1, 1))


def answer(engine: TorchEngine, seq: TorchSequence) -> list[int]:
    return list(seq.history.ids[len(PROMPT) :]) + rounds(engine, seq, 4)


@pytest.mark.spec("ENG-039", "ENG-065")
@pytest.mark.parametrize("drafted", [True, False])
def test_rows_are_walked_once_and_what_they_gave_stays(drafted: bool, text: list[int]) -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    [rows] = engine.verify([(seq, beside(text, 0) if drafted else EMPTY_TREE)])
    taken = len(engine.accept(seq, rows, GREEDY).ids)
    with pytest.raises(EngineError, match="earlier"):
        engine.accept(seq, rows, GREEDY)
    assert answer(engine, seq) == text[: taken + 4]


@pytest.mark.spec("ENG-039", "ENG-065")
def test_rows_of_a_step_do_not_count_behind_a_force(text: list[int]) -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    [rows] = engine.verify([(seq, EMPTY_TREE)])
    engine.force(seq, text[:2])
    with pytest.raises(EngineError, match="earlier"):
        engine.accept(seq, rows, GREEDY)
    assert answer(engine, seq) == text[:6]


@pytest.mark.spec("ENG-043", "ENG-065")
@pytest.mark.parametrize("kept", [True, False])
def test_a_commit_that_fails_takes_no_token(kept: bool, text: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    if not kept:
        rounds(engine, seq, 1)
    at = 0 if kept else 1
    [rows] = engine.verify([(seq, chain(text[at : at + 2]))])

    def broken(path: Sequence[int]) -> None:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine._state, "commit", broken)
        with pytest.raises(EngineError, match="accept failed"):
            engine.accept(seq, rows, GREEDY)
    assert engine.state()["committed_tokens"] == at
    assert answer(engine, seq) == text[: at + 4]
