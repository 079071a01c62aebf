"""Slots of the fake engine: one simulated device, and a joint verify that costs what one costs (ENG-172, ENG-160)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tandem.engine.caches.caching import MemoryRefused
from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.fake.slot import FakeSlot
from tandem.engine.fake.warm import WarmFakeEngine
from tandem.engine.verbs import EMPTY_TREE, SamplingRules
from tests.engine.fake.running import GREEDY, one_round, opened, text

SCRIPT = {"say": ["a", "b", "c", "d", "e", "f"], "block": 2, "token_ms": 10}


def joint(engine: FakeEngine, seqs: list[tuple[FakeSlot, FakeSeq]], rules: SamplingRules = GREEDY) -> list[str]:
    """One round of all of them: what each wrote, or its fault."""
    pairs = [(seq, slot.draft(seq, 100)) for slot, seq in seqs]
    told = []
    for (slot, seq), rows in zip(seqs, engine.verify(pairs), strict=True):
        try:
            told.append(text(engine, slot.accept(seq, rows, rules).ids))
        except EngineError as error:
            told.append(str(error))
    return told


@pytest.mark.spec("ENG-172", "ENG-160")
def test_slots_share_a_clock_and_nothing_else() -> None:
    engine = FakeEngine(slots=3, max_len=1000, side_max_len=200)
    assert [slot.card.max_len for slot in engine.slots] == [1000, 200, 200]
    assert replace(engine.slots[1].card, max_len=1000) == engine.card
    assert engine.slots[1].slots == (engine.slots[1],)
    first, second = opened(engine, SCRIPT), opened(engine.slots[1], SCRIPT)
    engine.take_elapsed()
    assert text(engine, one_round(engine, first).ids) == "ab"
    assert text(engine, one_round(engine.slots[1], second).ids) == "ab"
    assert engine.take_elapsed() == pytest.approx(0.04)
    assert engine.state()["open_sequences"] == 2
    assert engine.slots[1].state()["open_sequences"] == 1
    with pytest.raises(EngineError, match="another slot's"):
        engine.accept(second, engine.verify([(second, engine.slots[1].draft(second, 1))])[0], GREEDY)


@pytest.mark.spec("ENG-172", "ENG-162")
def test_a_joint_round_takes_as_long_as_one() -> None:
    engine = FakeEngine(slots=2)
    seqs = [(slot, opened(slot, SCRIPT)) for slot in engine.slots]
    engine.take_elapsed()
    assert joint(engine, seqs) == ["ab", "ab"]
    assert engine.take_elapsed() == pytest.approx(0.02)
    assert joint(engine, seqs[:1]) == ["cd"]
    assert engine.take_elapsed() == pytest.approx(0.02)
    assert [call.args.get("slot") for call in engine.calls if call.verb == "accept"] == [None, 1, None]


@pytest.mark.spec("SCH-068", "ENG-172")
def test_a_fault_of_one_is_raised_by_its_own_accept() -> None:
    engine = FakeEngine(slots=2)
    scripts = [SCRIPT, SCRIPT | {"fail_at": 2}]
    seqs = [(slot, opened(slot, script)) for slot, script in zip(engine.slots, scripts, strict=True)]
    assert joint(engine, seqs) == ["ab", "ab"]
    assert joint(engine, seqs) == ["cd", "the script has the engine fail at token 2"]
    assert joint(engine, seqs[:1]) == ["ef"]


@pytest.mark.spec("SCH-056", "ENG-172")
def test_a_slot_is_rebuilt_or_stays_broken() -> None:
    engine = FakeEngine(slots=2)
    side = engine.slots[1]
    seqs = [(slot, opened(slot, SCRIPT)) for slot in engine.slots]
    side.rebuild()
    assert seqs[1][1].closed
    rows = engine.verify([(seq, EMPTY_TREE) for _, seq in seqs])
    with pytest.raises(EngineError, match="closed"):
        side.accept(seqs[1][1], rows[1], GREEDY)
    assert text(engine, engine.accept(seqs[0][1], rows[0], GREEDY).ids) == "a"
    assert engine.state()["open_sequences"] == 1
    side.repairs = False
    with pytest.raises(EngineError, match="stay broken"):
        side.rebuild()


@pytest.mark.spec("SCH-051", "ENG-172")
def test_it_tells_what_its_next_prompt_may_go_on_with() -> None:
    engine = FakeEngine()
    assert engine.resident() == ((), 0)
    seq = opened(engine, SCRIPT)
    keys = seq.prompt.keys
    assert engine.resident() == (keys, len(keys))
    one_round(engine, seq)
    engine.close(seq)
    assert engine.resident() == ((*keys, seq.output[0]), len(keys))


@pytest.mark.spec("SCH-051", "ENG-172")
def test_with_caches_it_tells_the_conversation_and_not_its_guest() -> None:
    engine = WarmFakeEngine(grid=64, guest_max=200)
    seq = opened(engine, {"say": ["word " * 300]})
    engine.close(seq)
    kept = engine.resident()
    assert kept == (seq.prompt.keys, len(seq.prompt.keys))
    guest = opened(engine, {"say": ["x"]}, read=False)
    assert engine.resident() == kept
    engine.close(guest)
    engine.rebuild()
    assert engine.resident() == ((), 0)


@pytest.mark.spec("SCH-071", "SCH-074", "ENG-172")
def test_memory_is_of_all_slots() -> None:
    engine = WarmFakeEngine(slots=2, worst=(100, 2), workspace=50, peak=40)
    assert engine.worst_case(10, 5) == engine.slots[1].worst_case(10, 5) == 130
    with pytest.raises(MemoryRefused):
        opened(engine.slots[1], SCRIPT)


@pytest.mark.spec("ENG-172")
def test_loans_are_slot_0s() -> None:
    engine = FakeEngine(slots=2)
    side = engine.slots[1]
    with pytest.raises(EngineError, match="not lent"):
        side.borrow(None, 10)
    with pytest.raises(EngineError, match="not out"):
        side.give_back(engine.borrow(None, 10))
