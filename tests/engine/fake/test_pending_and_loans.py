"""What the fake takes back, and whom it is lent to, by arithmetic (ENG-172)."""

from __future__ import annotations

import pytest

from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tests.engine.fake.running import one_round, opened, text

SCRIPT = {"say": ["a", "b", "c", "d", "e", "f"], "block": 4}


def ids_of(engine: FakeEngine, seq: FakeSeq, count: int) -> None:
    while len(seq.output) < count:
        one_round(engine, seq)


def verbs(engine: FakeEngine) -> list[str]:
    return [call.verb for call in engine.calls]


@pytest.mark.spec("ENG-172", "ENG-039")
@pytest.mark.parametrize(("keeps", "then"), [(4, "ef"), (9, "ef"), (2, "cdef"), (1, "bcde"), (0, "abcd")])
def test_trim_moves_the_script_back(keeps: int, then: str) -> None:
    engine = FakeEngine()
    seq = opened(engine, SCRIPT)
    assert text(engine, one_round(engine, seq).ids) == "abcd"
    engine.trim(seq, keeps)
    assert text(engine, seq.output) == "abcd"[:keeps]
    assert engine.state()["committed_tokens"] == min(keeps, 4)
    assert engine.state()["accepted_tokens"] == min(keeps, 3)
    assert text(engine, one_round(engine, seq).ids) == then
    with pytest.raises(EngineError, match="cannot keep"):
        engine.trim(seq, -1)


@pytest.mark.spec("ENG-172", "ENG-039")
def test_discard_takes_all_of_a_round_back_once() -> None:
    engine = FakeEngine()
    seq = opened(engine, SCRIPT)
    one_round(engine, seq, limit=1)
    one_round(engine, seq)
    engine.discard(seq)
    engine.discard(seq)
    assert text(engine, seq.output) == "a"
    assert text(engine, one_round(engine, seq).ids) == "bcde"


@pytest.mark.spec("ENG-172", "ENG-039")
@pytest.mark.parametrize("verb", ["settle", "force", "ask", "snapshot"])
def test_what_is_settled_stays(verb: str) -> None:
    engine = FakeEngine()
    seq = opened(engine, SCRIPT)
    one_round(engine, seq)
    arguments: dict[str, tuple[list[int], ...]] = {"force": ([65],), "ask": ([65], [1, 2])}
    getattr(engine, verb)(seq, *arguments.get(verb, ()))
    output = list(seq.output)
    engine.discard(seq)
    assert seq.output == output
    assert verb in verbs(engine)


@pytest.mark.spec("ENG-172", "ENG-134")
def test_a_guest_runs_between_two_rounds_of_its_holder() -> None:
    engine = FakeEngine()
    seq = opened(engine, SCRIPT)
    one_round(engine, seq, limit=2)
    loan = engine.borrow(seq, 200)
    with pytest.raises(EngineError, match="lent"):
        one_round(engine, seq)
    with pytest.raises(EngineError, match="lent already"):
        engine.borrow(None, 5)
    guest = opened(engine, {"say": ["x", "y"]})
    with pytest.raises(EngineError, match="open already"):
        opened(engine, SCRIPT)
    assert text(engine, one_round(engine, guest).ids) == "x"
    engine.give_back(loan)
    assert guest.closed
    assert text(engine, one_round(engine, seq).ids) == "cdef"
    with pytest.raises(EngineError, match="not out"):
        engine.give_back(loan)
    lending = [call for call in engine.calls if call.verb in ("borrow", "give_back")]
    assert [(call.verb, call.args) for call in lending] == [
        ("borrow", {"seq": 0, "rows": 200}),
        ("give_back", {"seq": 0}),
    ]


@pytest.mark.spec("ENG-172", "ENG-138")
def test_it_is_lent_without_a_holder_too() -> None:
    engine = FakeEngine(max_len=400)
    loan = engine.borrow(None, 300)
    assert loan.nbytes == engine.cost()["bytes_per_token"] * 300
    guest = opened(engine, {"say": ["x"], "loop": True, "block": 32})
    with pytest.raises(EngineError, match="the 300 rows lent to a guest"):
        ids_of(engine, guest, 400)
    engine.give_back(loan)
    with pytest.raises(EngineError, match="401 rows"):
        engine.borrow(None, 401)
    loan = engine.borrow(None, 3)
    with pytest.raises(EngineError, match="lent to a guest"):
        opened(engine, SCRIPT)
    engine.give_back(loan)
    assert engine.state()["open_sequences"] == 0
