"""Several sequences over one model: each writes what it writes alone, whoever else is in its passes (section 16)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.drafting.tree import NODES, cut, share
from tandem.engine.errors import EngineError, SlotDamaged
from tandem.engine.models.model import JointModel
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, SamplingRules
from tests.engine.decoding.drafters import Scripted, half_right, oracle, random_trees
from tests.engine.decoding.engines import (
    GREEDY,
    KIND,
    PROMPT,
    kept_row,
    read,
    rounds,
    same,
    state_of,
    tiny_engine,
    trace,
)
from tests.engine.decoding.masks import SetMask
from tests.engine.decoding.slotted import PROMPTS, Asked, alone, slotted, together

pytestmark = pytest.mark.usefixtures("kind")

SEEDED = SamplingRules(temperature=0.9, top_k=20, seed=7)
PENALISED = SamplingRules(repetition_penalty=1.3, presence_penalty=0.4)
MASKED = SamplingRules(temperature=0.8, seed=3, mask=SetMask(frozenset(range(0, 256, 3))))
RULES = [GREEDY, SEEDED, PENALISED, MASKED]
DRAFTERS = {"oracle": oracle, "half right": half_right, "random trees": random_trees}


def drafting(name: str, requests: list[Asked]) -> Callable[[int], Drafter | None]:
    """What each slot drafts with: the same kind, over its own request's plain answer."""
    if name == "none":
        return lambda slot: None
    texts = [alone(asked) for asked in requests]
    return lambda slot: Scripted(DRAFTERS[name](texts[slot], len(requests[slot].prompt)))


@pytest.mark.spec("ENG-162", "ENG-160", "SCH-069")
@pytest.mark.parametrize("drafter", ["none", *DRAFTERS])
@pytest.mark.parametrize("slots", [2, 3])
def test_each_writes_what_it_writes_alone(slots: int, drafter: str) -> None:
    requests = [Asked(prompt, rules) for prompt, rules in zip(PROMPTS, RULES, strict=True)][-slots:]
    engine = slotted(slots, drafting(drafter, requests))
    together(engine, requests)
    for asked in requests:
        assert asked.written[: asked.count] == alone(asked)[: asked.count]
    assert engine.state()["joint_passes"] > 0
    assert max(accepted.together for asked in requests for accepted in asked.rounds) == slots


@dataclass
class Paying(Scripted):
    """Remembers what verifies cost it."""

    paid_for: list[int] = field(default_factory=list)

    def paid(self, rows: int, *args: object) -> None:
        self.paid_for.append(rows)


@pytest.mark.spec("SCH-069")
def test_what_a_joint_pass_took_is_no_price_of_a_verify() -> None:
    request, other = Asked(PROMPTS[0]), Asked(PROMPTS[1], count=4)
    drafter = Paying(half_right(alone(request), len(PROMPTS[0])))
    together(slotted(2, lambda slot: None if slot else drafter), [request, other])
    lone = [each for each in request.rounds if each.together == 1 and each.spent.verify]
    assert len(lone) < len([each for each in request.rounds if each.spent.verify])
    assert len(drafter.paid_for) == len(lone)


@pytest.mark.spec("SCH-068", "ENG-162")
def test_one_that_ends_inside_a_joint_round_changes_nothing_of_the_others() -> None:
    plain = [alone(Asked(prompt)) for prompt in PROMPTS[:3]]
    ends = SamplingRules(end_ids=frozenset({plain[0][9]}))
    requests = [Asked(PROMPTS[0], ends), Asked(PROMPTS[1]), Asked(PROMPTS[2], count=13)]
    together(slotted(3, drafting("oracle", requests)), requests)
    stop = plain[0].index(plain[0][9]) + 1
    assert requests[0].written == plain[0][:stop]
    assert [asked.written for asked in requests[1:]] == [plain[1][:16], plain[2][:13]]


@pytest.mark.spec("ENG-165")
def test_a_slot_alone_runs_as_without_the_others_bit_for_bit() -> None:
    engine, single = slotted(2), tiny_engine()
    ids, rows = trace(engine, read(engine, PROMPT))
    expected_ids, expected_rows = trace(single, read(single, PROMPT))
    assert ids == expected_ids
    assert same(rows, expected_rows)
    side, by_itself = engine.slots[1], tiny_engine()
    seq, plain = read(side, PROMPTS[1]), read(by_itself, PROMPTS[1])
    for _ in range(6):  # through slot 0, as the service does it
        [rows_of_side] = engine.verify([(seq, EMPTY_TREE)])
        assert same([rows_of_side.logits], [kept_row(by_itself, plain)])
        assert list(side.accept(seq, rows_of_side, GREEDY).ids) == rounds(by_itself, plain, 1)
    assert engine.state()["joint_passes"] == 0
    assert set(single.state()) == set(engine.state()) - {"joint_passes", "joint_pairs", "joint_rows", "joint_ms"}
    assert single.slots == (single,)


@pytest.mark.spec("ENG-160", "SCH-052")
def test_windows_and_sequences_are_each_slots_own() -> None:
    engine = slotted(2, window=64)
    side = engine.slots[1]
    assert (engine.card.max_len, side.card.max_len) == (256, 64)
    assert replace(side.card, max_len=256) == engine.card
    first, second = read(engine, PROMPT), read(side, PROMPTS[1])
    assert (first.length, second.length) == (75, 41)
    with pytest.raises(EngineError, match="open already"):
        side.open(Prompt.of_client(PROMPTS[3]))
    side.close(second)
    with pytest.raises(EngineError, match="window of 64"):
        side.open(Prompt.of_client(PROMPT))
    assert engine.state()["requests"] == 2


@pytest.mark.spec("ENG-160")
def test_a_side_slot_is_not_lent() -> None:
    side = slotted(2).slots[1]
    with pytest.raises(EngineError, match="not lent"):
        side.borrow(None, 8)


@pytest.mark.spec("ENG-162")
def test_a_row_that_is_kept_needs_no_pass_and_joins_all_the_same() -> None:
    engine = slotted(2)
    first, second = read(engine, PROMPT), read(engine.slots[1], PROMPTS[1])
    rows = engine.verify([(second, EMPTY_TREE), (first, EMPTY_TREE)])
    assert [each.together for each in rows] == [1, 1]
    assert engine.state()["joint_passes"] == 0
    assert list(engine.slots[1].accept(second, rows[0], GREEDY).ids) == alone(Asked(PROMPTS[1]))[:1]
    assert list(engine.accept(first, rows[1], GREEDY).ids) == alone(Asked(PROMPT))[:1]
    # Now the one has a token to read, and the other a row again.
    engine.force(first, [5])
    rows = engine.verify([(second, EMPTY_TREE), (first, EMPTY_TREE)])
    assert [each.together for each in rows] == [1, 1]


@pytest.mark.spec("ENG-039", "ENG-162")
@pytest.mark.parametrize("drafted", [True, False])
def test_what_a_joint_round_took_can_be_taken_back(drafted: bool) -> None:
    requests = [Asked(prompt) for prompt in PROMPTS[:2]]
    engine = slotted(2, drafting("oracle" if drafted else "none", requests))
    seqs = [read(slot, prompt) for slot, prompt in zip(engine.slots, PROMPTS, strict=False)]
    texts = [alone(asked) for asked in requests]
    for keep in (0, 1, 2, 9, 0):
        before = [len(seq.history) for seq in seqs]
        pairs = [(seq, slot.draft(seq, 5)) for slot, seq in zip(engine.slots, seqs, strict=True)]
        taken = zip(engine.slots, seqs, engine.verify(pairs), strict=True)
        counts = [len(slot.accept(seq, rows, GREEDY).ids) for slot, seq, rows in taken]
        engine.slots[1].trim(seqs[1], keep)
        assert len(seqs[0].history) == before[0] + counts[0]
        assert len(seqs[1].history) == before[1] + min(keep, counts[1])
        for seq, asked, text in zip(seqs, requests, texts, strict=True):
            written = seq.history.ids[len(asked.prompt) :]
            assert written == text[: len(written)]


@pytest.mark.spec("SCH-056", "ENG-160")
def test_a_rebuilt_slot_is_a_new_one_and_the_others_notice_nothing() -> None:
    requests = [Asked(prompt) for prompt in PROMPTS[:2]]
    engine = slotted(2)
    side = engine.slots[1]
    seq, other = read(engine, PROMPT), read(side, PROMPTS[1])
    held = state_of(engine, seq)
    side._state.kv.keys.fill_(float("nan"))
    side.rebuild()
    assert other.closed
    assert same([state_of(engine, seq)], [held])
    engine.close(seq)
    together(engine, requests)
    assert [asked.written for asked in requests] == [alone(asked)[:16] for asked in requests]


@pytest.mark.spec("SCH-056")
def test_slot_0_is_rebuilt_with_a_loan_out() -> None:
    engine = slotted(2)
    holder = read(engine, PROMPT)
    loan = engine.borrow(holder, 64)
    guest = read(engine, PROMPTS[3])
    engine.rebuild()
    assert holder.closed
    assert guest.closed
    with pytest.raises(EngineError, match="not out"):
        engine.give_back(loan)
    assert rounds(engine, read(engine, PROMPT), 8) == alone(Asked(PROMPT))[:8]


@pytest.mark.spec("SCH-056", "ENG-135")
def test_a_loan_that_does_not_come_back_whole_leaves_a_slot_to_be_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slotted(2)
    holder = read(engine, PROMPT)
    loan = engine.borrow(holder, 64)

    def broken(lent: object) -> None:
        raise RuntimeError("half of it")

    with monkeypatch.context() as patch:
        patch.setattr(engine._state, "take_back", broken)
        with pytest.raises(SlotDamaged, match="half of it"):
            engine.give_back(loan)
    engine.rebuild()
    assert holder.closed
    assert rounds(engine, read(engine, PROMPT), 8) == alone(Asked(PROMPT))[:8]


@pytest.mark.spec("SCH-056")
def test_a_fault_of_the_device_itself_is_told_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slotted(2)
    seq = read(engine, PROMPT)
    rounds(engine, seq, 1)

    def dead(hidden: object) -> None:
        raise torch.AcceleratorError("an illegal memory access")

    with monkeypatch.context() as patch:
        patch.setattr(type(engine._model), "logits", lambda self, hidden: dead(hidden))
        with pytest.raises(SlotDamaged, match="illegal"):
            rounds(engine, seq, 1)


@pytest.mark.spec("SCH-056")
def test_without_memory_for_it_the_slot_serves_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slotted(2)
    side = engine.slots[1]

    def full(*args: object, **options: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros", full)
        with pytest.raises(EngineError, match="no memory for the slot's buffers"):
            side.rebuild()
    with pytest.raises(EngineError, match="window of 0"):
        side.open(Prompt.of_client(PROMPT))
    assert rounds(engine, read(engine, PROMPT), 8) == alone(Asked(PROMPT))[:8]


@pytest.mark.spec("SCH-068", "ENG-043")
def test_a_slot_whose_sequence_is_gone_fails_alone() -> None:
    engine = slotted(3)
    seqs = [read(slot, prompt) for slot, prompt in zip(engine.slots, PROMPTS, strict=False)]
    for slot, seq in zip(engine.slots, seqs, strict=True):
        rounds(slot, seq, 1)
    engine.slots[1].close(seqs[1])
    rows = engine.verify([(seq, EMPTY_TREE) for seq in seqs])
    with pytest.raises(EngineError, match="closed"):
        engine.slots[1].accept(seqs[1], rows[1], GREEDY)
    for at in (0, 2):
        assert list(engine.slots[at].accept(seqs[at], rows[at], GREEDY).ids) == alone(Asked(PROMPTS[at]))[1:2]


@pytest.mark.spec("SCH-068", "ENG-043")
def test_a_row_that_is_not_finite_ends_its_own_request() -> None:
    engine = slotted(2)
    seqs = [read(slot, prompt) for slot, prompt in zip(engine.slots, PROMPTS, strict=False)]
    for slot, seq in zip(engine.slots, seqs, strict=True):
        rounds(slot, seq, 1)
    engine.slots[1]._state.kv.values[:, :, : seqs[1].length] = float("nan")
    rows = engine.verify([(seq, EMPTY_TREE) for seq in seqs])
    with pytest.raises(EngineError, match="no finite logit"):
        engine.slots[1].accept(seqs[1], rows[1], GREEDY)
    assert rows[0].together == 2
    assert list(engine.accept(seqs[0], rows[0], GREEDY).ids) == alone(Asked(PROMPTS[0]))[1:2]


@pytest.mark.spec("SCH-068", "ENG-043")
def test_when_the_joint_pass_fails_each_is_verified_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [Asked(prompt) for prompt in PROMPTS[:2]]
    engine = slotted(2, drafting("half right", requests))

    joint = type(engine._model).verify_joint  # type: ignore[attr-defined]

    def only_alone(self: object, trees: list[object]) -> object:
        if len(trees) > 1:
            raise RuntimeError("no kernel")
        return joint(self, trees)

    monkeypatch.setattr(type(engine._model), "verify_joint", only_alone)
    together(engine, requests)
    assert [asked.written[:16] for asked in requests] == [alone(asked)[:16] for asked in requests]
    assert engine.state()["joint_passes"] == 0
    assert engine.state()["errors"] == 0


@pytest.mark.spec("ENG-162")
def test_a_verify_takes_one_pair_a_slot() -> None:
    engine = slotted(2)
    seq, other = read(engine, PROMPT), read(engine.slots[1], PROMPTS[1])
    with pytest.raises(EngineError, match="one pair of each slot"):
        engine.verify([(seq, EMPTY_TREE), (other, EMPTY_TREE), (other, EMPTY_TREE)])


@pytest.mark.spec("SCH-065", "ENG-163")
def test_shares_add_up_to_about_the_widest_tree() -> None:
    assert [share(slots) for slots in (1, 2, 3, 4, 5, 8)] == [NODES, 16, 10, 8, 6, 4]


@pytest.mark.spec("SCH-051")
def test_it_tells_what_its_next_prompt_may_go_on_with() -> None:
    engine = slotted(2)
    assert engine.resident() == ((), 0)
    seq = read(engine, PROMPT)
    assert engine.resident() == (tuple(PROMPT), len(PROMPT))
    written = rounds(engine, seq, 4)
    loan = engine.borrow(seq, 64)
    read(engine, PROMPTS[3])
    assert engine.resident() == (tuple(PROMPT), len(PROMPT))
    engine.give_back(loan)
    engine.close(seq)
    ids, rows = engine.resident()
    assert (tuple(ids), rows) == ((*PROMPT, *written[:-1]), len(PROMPT))
    assert engine.resident()[0] is ids
    loan = engine.borrow(None, 64)
    assert engine.resident() == (ids, rows)
    engine.give_back(loan)
    side = engine.slots[1]
    side.close(read(side, PROMPTS[1]))
    assert side.resident() == ((), 0)


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["open", "join", "join", "join", "lone", "trim", "settle", "ask", "close"]),
        st.integers(0, 7),
        st.integers(0, 6),
    ),
    max_size=30,
)


@pytest.mark.spec("ENG-162", "SCH-068", "ENG-041")
@given(steps=STEPS)
@settings(max_examples=12, deadline=None)
def test_any_interleaving_leaves_every_text_as_it_is_alone(steps: list[Step]) -> None:
    """`open` reads a whole prompt on one slot, `join` is a round of the slots whose bits are set."""
    plain = texts_of(KIND.get())
    engine = slotted(3, lambda slot: Scripted(random_trees(plain[slot], len(PROMPTS[slot]))))
    assert isinstance(engine._model, JointModel)
    seqs: dict[int, TorchSequence] = {}
    for step, at, count in steps:
        slot = at % 3
        one = engine.slots[slot]
        match step:
            case "open" if slot not in seqs:
                seqs[slot] = read(one, PROMPTS[slot])
            case "close" if slot in seqs:
                one.close(seqs.pop(slot))
            case "join" | "lone":
                busy = [each for each in seqs if at >> each & 1] if step == "join" else [slot] if slot in seqs else []
                if busy:
                    _round(engine, {each: seqs[each] for each in busy}, count)
            case "trim" if slot in seqs:
                one.trim(seqs[slot], count)
            case "settle" if slot in seqs:
                one.settle(seqs[slot])
            case "ask" if slot in seqs:
                one.ask(seqs[slot], [3, 4], [1, 2])
        for each, seq in seqs.items():
            written = seq.history.ids[len(PROMPTS[each]) :][:60]
            assert written == plain[each][: len(written)]


@cache
def texts_of(kind: str) -> list[list[int]]:
    """The plain answers to all prompts by the tiny model of that kind."""
    return [alone(Asked(each, count=48)) for each in PROMPTS]


def _round(engine: TorchEngine, seqs: dict[int, TorchSequence], limit: int) -> None:
    pairs = [(seq, cut(engine.slots[at].draft(seq, limit + 1), share(len(seqs)))) for at, seq in seqs.items()]
    for (at, seq), rows in zip(seqs.items(), engine.verify(pairs), strict=True):
        engine.slots[at].accept(seq, rows, GREEDY)
