"""What is pending and what becomes of it: settled, trimmed, taken back, asked over (ENG-039, ENG-041)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.tree import chain
from tandem.engine.verbs import EMPTY_TREE, SamplingRules, Tree
from tests.engine.decoding.engines import GREEDY, PROMPT, kept_row, read, rounds, state_of, tiny, tiny_engine
from tests.engine.models.memory import VOCAB

pytestmark = pytest.mark.usefixtures("kind")
NEAR = 1e-3


@pytest.fixture(scope="module")
def text(kind: str) -> list[int]:
    engine = tiny_engine()
    return rounds(engine, read(engine, PROMPT), 60)


def right(text: Sequence[int], at: int, count: int) -> Tree:
    return chain(text[at : at + count])


def partly(text: Sequence[int], at: int) -> Tree:
    """A tree with the plain answer's next two tokens on one of its paths."""
    wrong = (text[at] + 1) % VOCAB
    return Tree((wrong, text[at], 9, text[at + 1], 11), (-1, -1, 0, 1, 3))


def round_of(engine: TorchEngine, seq: TorchSequence, tree: Tree, rules: SamplingRules = GREEDY) -> tuple[int, ...]:
    [rows] = engine.verify([(seq, tree)])
    return engine.accept(seq, rows, rules).ids


TREES: dict[str, Callable[[Sequence[int], int], Tree]] = {
    "single step": lambda text, at: EMPTY_TREE,
    "full accept": lambda text, at: right(text, at, 3),
    "partial accept": lambda text, at: chain([text[at], (text[at + 1] + 1) % VOCAB, 7]),
    "none accepted": lambda text, at: chain([(text[at] + 1) % VOCAB, 7]),
    "tree": partly,
}


@dataclass
class Twin:
    """The same verbs on two engines, on the first with questions between them and commits settled at other times."""

    engine: TorchEngine
    seq: TorchSequence


def both(prompt: Sequence[int] = PROMPT) -> tuple[Twin, Twin]:
    model = tiny().model
    one, other = tiny_engine(model=model), tiny_engine(model=model)
    return Twin(one, read(one, prompt)), Twin(other, read(other, prompt))


def same_sequence(one: Twin, other: Twin) -> bool:
    """Ids, rows, recurrent part and anchors, bit for bit."""
    return (
        list(one.seq.history.ids) == list(other.seq.history.ids)
        and one.seq.length == other.seq.length
        and one.seq.anchors.all == other.seq.anchors.all
        and bool((state_of(one.engine, one.seq) == state_of(other.engine, other.seq)).all())
        and bool((kept_row(one.engine, one.seq) == kept_row(other.engine, other.seq)).all())
    )


@pytest.mark.spec("ENG-041", "ENG-039")
@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize("kind_of_round", TREES)
def test_a_question_and_a_settle_leave_no_trace(kind_of_round: str, settles: bool, text: list[int]) -> None:
    asked, plain = both()
    for _ in range(3):
        at = len(plain.seq.history) - 75
        tree = TREES[kind_of_round](text, at)
        assert round_of(asked.engine, asked.seq, tree) == round_of(plain.engine, plain.seq, tree)
        if settles:
            asked.engine.settle(asked.seq)
            asked.engine.settle(asked.seq)
        asked.engine.ask(asked.seq, [3, 1, 2], [7, 8])
    assert same_sequence(asked, plain)


@pytest.mark.spec("ENG-039")
@pytest.mark.parametrize("kept_before", [True, False])
@pytest.mark.parametrize("kind_of_round", TREES)
def test_a_discarded_round_never_was(kind_of_round: str, kept_before: bool, text: list[int]) -> None:
    one, plain = both()
    if not kept_before:
        for twin in (one, plain):
            rounds(twin.engine, twin.seq, 2)
    at, row = len(plain.seq.history) - 75, one.seq.row
    round_of(one.engine, one.seq, TREES[kind_of_round](text, at))
    one.engine.discard(one.seq)
    assert (one.seq.row is row) == (kept_before or kind_of_round != "single step")
    one.engine.discard(one.seq)
    assert one.engine.state()["committed_tokens"] == plain.engine.state()["committed_tokens"]
    kept_row(one.engine, one.seq), kept_row(plain.engine, plain.seq)
    assert same_sequence(one, plain)
    assert rounds(one.engine, one.seq, 4) == text[at : at + 4]


@pytest.mark.spec("ENG-039")
@pytest.mark.parametrize("kept_before", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_a_trimmed_round_is_one_that_accepted_less(count: int, kept_before: bool, text: list[int]) -> None:
    """As by another run that verified the same tree and whose target ended there."""
    kept = min(count, 4)
    at = next(at for at in range(1, 40) if text[at + kept - 1] not in text[at : at + kept - 1])
    one, plain = both([*PROMPT, *text[:at]] if kept_before else [*PROMPT, *text[: at - 1]])
    if not kept_before:
        for twin in (one, plain):
            rounds(twin.engine, twin.seq, 1)
    assert len(round_of(one.engine, one.seq, right(text, at, 3))) == 4
    one.engine.trim(one.seq, 4 if count > 3 else 3)
    one.engine.trim(one.seq, count)
    ending = replace(GREEDY, end_ids=frozenset({text[at + kept - 1]}))
    assert len(round_of(plain.engine, plain.seq, right(text, at, 3), ending)) == kept
    assert one.engine.state()["committed_tokens"] == plain.engine.state()["committed_tokens"]
    assert one.engine.state()["accepted_tokens"] == kept - (kept == 4)
    assert one.seq.length == len(PROMPT) + at + kept - 1
    assert same_sequence(one, plain)
    assert rounds(one.engine, one.seq, 4) == text[at + kept : at + kept + 4]


steps = st.lists(
    st.tuples(
        st.sampled_from([*TREES, "force"]),
        st.sampled_from(("", "", "settle", "ask", "snapshot", "trim", "trim settle", "discard")),
        st.integers(0, 4),
    ),
    max_size=6,
)


@pytest.mark.spec("ENG-039", "ENG-041")
@given(steps)
@settings(max_examples=15, deadline=None)
def test_any_order_of_verbs_leaves_what_a_plain_run_of_its_ids_leaves(
    text: list[int], steps: list[tuple[str, str, int]]
) -> None:
    one, plain = both()
    for kind_of_round, then, count in steps:
        if kind_of_round == "force":
            one.engine.force(one.seq, [5, 9])
        else:
            round_of(one.engine, one.seq, TREES[kind_of_round](text, (len(one.seq.history) - 75) % 40))
        for verb in then.split():
            act(one, verb, count)
    ids = list(one.seq.history.ids)
    plain.engine.close(plain.seq)
    fresh = read(plain.engine, PROMPT)
    if ids[75:]:
        plain.engine.force(fresh, ids[75:])
    row, wanted = kept_row(one.engine, one.seq), kept_row(plain.engine, fresh)
    assert one.seq.length == fresh.length == len(ids)
    assert near(row, wanted)
    assert near(state_of(one.engine, one.seq), state_of(plain.engine, fresh))


def act(twin: Twin, verb: str, count: int) -> None:
    match verb:
        case "settle":
            twin.engine.settle(twin.seq)
        case "ask":
            twin.engine.ask(twin.seq, [3, 1], [7, 8])
        case "snapshot":
            twin.engine.restore(twin.seq, twin.engine.snapshot(twin.seq))
        case "trim":
            twin.engine.trim(twin.seq, count)
        case _:
            twin.engine.discard(twin.seq)


def near(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() < NEAR)


@pytest.mark.spec("ENG-039")
@pytest.mark.parametrize("verb", ["force", "ask", "snapshot", "settle", "verify"])
def test_what_the_sequence_was_read_over_is_pending_no_more(verb: str, text: list[int]) -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    verbs: dict[str, Callable[[], object]] = {
        "force": lambda: engine.force(seq, [5]),
        "ask": lambda: engine.ask(seq, [5], [6]),
        "snapshot": lambda: engine.snapshot(seq),
        "settle": lambda: engine.settle(seq),
        "verify": lambda: engine.verify([(seq, EMPTY_TREE)]),
    }
    round_of(engine, seq, right(text, 0, 3))
    verbs[verb]()
    ids = list(seq.history.ids)
    engine.discard(seq)
    assert list(seq.history.ids) == ids
    assert engine.state()["committed_tokens"] == 4


@pytest.mark.spec("ENG-039", "ENG-110")
def test_a_sequence_closed_over_a_pending_commit_is_resumed_behind_it(text: list[int]) -> None:
    model = tiny().model
    engine, plain = tiny_engine(model=model), tiny_engine(model=model)
    seq = read(engine, PROMPT)
    round_of(engine, seq, right(text, 0, 3))
    engine.close(seq)
    again, cold = read(engine, [*PROMPT, *text[:4], 3]), read(plain, [*PROMPT, *text[:4], 3])
    assert again.resumed == 75 + 3
    assert near(kept_row(engine, again), kept_row(plain, cold))
