"""The engine is lent to a guest and given back: the holder goes on as if nobody had been there (ENG-134 to ENG-138)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.tree import chain
from tandem.engine.errors import EngineError
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, Tree
from tests.engine.decoding.drafters import Recording, oracle
from tests.engine.decoding.engines import (
    GREEDY,
    PROMPT,
    ids_of,
    read,
    rounds,
    same,
    state_of,
    tiny,
    tiny_engine,
    trace,
)

pytestmark = pytest.mark.usefixtures("kind")
GUEST = ids_of(70, 9)
ROWS = 70 + 8 + 64


@pytest.fixture(scope="module")
def text(kind: str) -> list[int]:
    engine = tiny_engine()
    return rounds(engine, read(engine, PROMPT), 12)


def partial(engine: TorchEngine, text: list[int], *, settle: bool) -> TorchSequence:
    """A round that took two of three drafted tokens, its commit pending or not."""
    seq = read(engine, PROMPT)
    rounds(engine, seq, 1)
    [rows] = engine.verify([(seq, chain([*text[1:3], 7]))])
    assert len(engine.accept(seq, rows, GREEDY).ids) == 3
    if settle:
        engine.settle(seq)
    return seq


def half_read(engine: TorchEngine, text: list[int]) -> TorchSequence:
    seq = engine.open(Prompt.of_client(PROMPT))
    engine.prefill(seq, 75)
    return seq


def verified(engine: TorchEngine, text: list[int]) -> TorchSequence:
    seq = read(engine, PROMPT)
    rounds(engine, seq, 2)
    engine.verify([(seq, EMPTY_TREE)])
    return seq


def between(engine: TorchEngine, text: list[int]) -> TorchSequence:
    seq = read(engine, PROMPT)
    rounds(engine, seq, 3)
    return seq


POINTS: dict[str, Callable[[TorchEngine, list[int]], TorchSequence]] = {
    "prefill": half_read,
    "prompt read": lambda engine, text: read(engine, PROMPT),
    "rounds": between,
    "row kept": verified,
    "commit pending": lambda engine, text: partial(engine, text, settle=False),
    "partial accept": lambda engine, text: partial(engine, text, settle=True),
}


def guest_of(engine: TorchEngine, count: int = 8) -> list[int]:
    seq = read(engine, GUEST)
    out = rounds(engine, seq, count)
    engine.close(seq)
    return out


@pytest.mark.spec("ENG-134", "ENG-135", "ENG-136")
@pytest.mark.parametrize("point", POINTS)
def test_the_holder_goes_on_bit_for_bit(point: str, text: list[int]) -> None:
    model = tiny().model
    engine, plain = tiny_engine(model=model), tiny_engine(model=model)
    seq, beside = POINTS[point](engine, text), POINTS[point](plain, text)
    loan = engine.borrow(seq, ROWS)
    answer = guest_of(engine)
    engine.give_back(loan)
    for each, own in ((engine, seq), (plain, beside)):
        while each.prefill(own, 75).done < 75:
            pass
    assert seq.anchors.all == beside.anchors.all
    assert (seq.pending is None) == (beside.pending is None)
    one, other = trace(engine, seq), trace(plain, beside)
    assert one[0] == other[0]
    assert same(one[1], other[1])
    assert torch.equal(state_of(engine, seq), state_of(plain, beside))
    alone = tiny_engine(model=model)
    assert answer == guest_of(alone)


@pytest.mark.spec("ENG-134", "ENG-039")
def test_a_pending_commit_can_be_taken_back_after_a_loan(text: list[int]) -> None:
    engine = tiny_engine()
    seq = partial(engine, text, settle=False)
    loan = engine.borrow(seq, ROWS)
    guest_of(engine)
    engine.give_back(loan)
    engine.trim(seq, 1)
    assert list(seq.history.ids[75:]) == text[:2]
    assert rounds(engine, seq, 6) == text[2:8]


@pytest.mark.spec("ENG-134", "ENG-135")
@pytest.mark.parametrize("count", [0, 2])
def test_rows_that_nobody_has_walked_yet_are_walked_after_a_loan(count: int, text: list[int]) -> None:
    model, tree = tiny().model, Tree((7, text[count], 9, text[count + 1]), (-1, -1, 1, 1))
    answers = []
    for lends in (True, False):
        engine = tiny_engine(model=model)
        seq = read(engine, PROMPT)
        rounds(engine, seq, count)
        [rows] = engine.verify([(seq, tree)])
        if lends:
            loan = engine.borrow(seq, ROWS)
            guest_of(engine)
            engine.give_back(loan)
        assert len(engine.accept(seq, rows, GREEDY).ids) == 3
        answers.append((trace(engine, seq), state_of(engine, seq)))
    (one, state), (other, wanted) = answers
    assert one[0] == other[0]
    assert same(one[1], other[1])
    assert torch.equal(state, wanted)


def breaking(engine: TorchEngine) -> None:
    """A guest whose forward fails half-way through its answer, and that nobody closes."""
    seq = read(engine, GUEST)
    model = engine._model
    logits = model.logits

    def broken(hidden: Tensor) -> Tensor:
        raise RuntimeError("no memory")

    model.logits = broken  # type: ignore[method-assign]
    try:
        rounds(engine, seq, 2)
    finally:
        model.logits = logits  # type: ignore[method-assign]


def too_long(engine: TorchEngine) -> None:
    read(engine, ids_of(ROWS, 3))


def outgrown(engine: TorchEngine) -> None:
    seq = read(engine, GUEST)
    rounds(engine, seq, ROWS)


def forced(engine: TorchEngine) -> None:
    engine.force(read(engine, GUEST), ids_of(ROWS, 2))


@pytest.mark.spec("ENG-137", "ENG-134")
@pytest.mark.parametrize(
    ("guest", "says"),
    [(breaking, "no memory"), (too_long, "lent to a guest"), (outgrown, f"the {ROWS} rows lent"), (forced, "lent")],
)
def test_a_guest_that_fails_leaves_the_holder_alone(
    guest: Callable[[TorchEngine], None], says: str, text: list[int]
) -> None:
    engine = tiny_engine()
    seq = partial(engine, text, settle=False)
    loan = engine.borrow(seq, ROWS)
    with pytest.raises(EngineError, match=says):
        guest(engine)
    engine.give_back(loan)
    assert rounds(engine, seq, 6) == text[4:10]


@pytest.mark.spec("ENG-138", "ENG-107")
def test_without_a_holder_the_resident_rows_are_lent(text: list[int]) -> None:
    model = tiny().model
    engine, plain = tiny_engine(model=model), tiny_engine(model=model)
    for each in (engine, plain):
        seq = read(each, PROMPT)
        rounds(each, seq, 3)
        each.close(seq)
    before = {**engine.state()}
    loan = engine.borrow(None, ROWS)
    assert engine.state()["resident_rows"] == 0
    guest_of(engine)
    engine.give_back(loan)
    after = engine.state()
    assert {name: after[name] for name in before if name.startswith(("resident", "requests"))} == (
        {name: before[name] for name in before if name.startswith(("resident", "requests"))}
    )
    assert after["guests"] == 1
    prompt = [*PROMPT, *text[:3], 4]
    again, cold = read(engine, prompt), read(plain, prompt)
    assert (again.resumed, cold.resumed) == (77, 77)
    one, other = trace(engine, again), trace(plain, cold)
    assert one[0] == other[0]
    assert same(one[1], other[1])


@pytest.mark.spec("ENG-136")
def test_a_guest_resumes_nothing_and_leaves_nothing() -> None:
    engine = tiny_engine()
    engine.close(read(engine, PROMPT))
    loan = engine.borrow(None, 100)
    guest = read(engine, PROMPT)
    assert guest.resumed == 0
    assert guest.anchors.all == ()
    engine.close(guest)
    assert read(engine, PROMPT).resumed == 0
    engine.give_back(loan)
    assert read(engine, [*PROMPT, 3]).resumed == 75


@pytest.mark.spec("ENG-136")
def test_the_drafter_rests_while_a_guest_runs(text: list[int]) -> None:
    drafter = Recording(oracle(text, len(PROMPT)))
    engine = tiny_engine(drafter=drafter)
    seq = read(engine, PROMPT)
    rounds(engine, seq, 2)
    calls, rows = list(drafter.calls), dict(drafter.rows)
    loan = engine.borrow(seq, ROWS)
    guest = read(engine, GUEST)
    assert engine.draft(guest, 9) == EMPTY_TREE
    rounds(engine, guest, 3)
    engine.give_back(loan)
    assert (drafter.calls, drafter.rows.keys()) == (calls, rows.keys())
    assert len(engine.draft(seq, 5).tokens) == 4


@pytest.mark.spec("ENG-137")
def test_the_copy_is_as_large_as_was_said() -> None:
    engine = tiny_engine()
    loan = engine.borrow(None, 100)
    assert loan.nbytes == 100 * engine.cost()["bytes_per_token"]
    engine.give_back(loan)


@pytest.mark.spec("ENG-134")
def test_misuse_of_a_loan_is_refused() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    for holder, rows, says in ((None, 10, "holder"), (seq, 0, "0 rows"), (seq, 257, "257 rows")):
        with pytest.raises(EngineError, match=says):
            engine.borrow(holder, rows)
    point = engine.snapshot(seq)
    loan = engine.borrow(seq, 60)
    held: list[Callable[[], object]] = [
        lambda: rounds(engine, seq, 1),
        lambda: engine.force(seq, [1]),
        lambda: engine.ask(seq, [1], [2]),
        lambda: engine.settle(seq),
        lambda: engine.snapshot(seq),
        lambda: engine.close(seq),
        lambda: engine.clear(),
    ]
    for verb in held:
        with pytest.raises(EngineError, match=r"lent|open"):
            verb()
    with pytest.raises(EngineError, match="lent already"):
        engine.borrow(None, 10)
    guest = read(engine, GUEST[:20])
    with pytest.raises(EngineError, match="75 rows does not fit"):
        engine.restore(guest, point)
    engine.give_back(loan)
    with pytest.raises(EngineError, match="not out"):
        engine.give_back(loan)
    assert guest.closed
    assert len(rounds(engine, seq, 2)) == 2


def test_a_loan_that_finds_no_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch, text: list[int]) -> None:
    engine = tiny_engine()
    seq = partial(engine, text, settle=False)

    def broken(rows: int) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(engine._state, "lend", broken)
        with pytest.raises(EngineError, match="borrow failed"):
            engine.borrow(seq, ROWS)
    assert rounds(engine, seq, 6) == text[4:10]
