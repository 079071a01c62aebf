"""An engine and its drafter: what it is told, what is counted, and what a fault of it is (ENG-045, ENG-048)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tandem.engine.decoding.work import Round, perform
from tandem.engine.drafting.tree import chain
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Accepted, Tree
from tests.engine.decoding.drafters import Breaking, Recording, Scripted, half_right, oracle
from tests.engine.decoding.engines import GREEDY, GRID, PROMPT, read, rounds, tiny_engine
from tests.engine.models.memory import VOCAB

pytestmark = pytest.mark.usefixtures("kind")


@pytest.fixture(scope="module")
def text(kind: str) -> list[int]:
    engine = tiny_engine()
    return rounds(engine, read(engine, PROMPT), 20)


@pytest.mark.spec("ENG-045")
def test_rounds_and_tokens_are_counted_by_drafter(text: list[int]) -> None:

    def says(ids: Sequence[int], nodes: int, depth: int) -> Tree:
        at = len(ids) - len(PROMPT)
        tree = chain([*text[at : at + 2], VOCAB - 1])
        return replace(tree, sources=("one", "two", "two"))

    engine = tiny_engine(drafter=Scripted(says, name="both"))
    seq = read(engine, PROMPT)
    for _ in range(2):
        perform(engine, seq, Round(9), GREEDY)
    perform(engine, seq, Round(1), GREEDY)
    state = engine.state()
    assert (state["rounds_by_both"], state["rounds_by_none"], state["rounds"]) == (2, 1, 3)
    assert (state["drafted_tokens_by_one"], state["drafted_tokens_by_two"], state["drafted_tokens"]) == (2, 4, 6)
    assert (state["accepted_tokens_by_one"], state["accepted_tokens_by_two"], state["accepted_tokens"]) == (2, 2, 4)
    assert (state["committed_tokens_by_both"], state["committed_tokens"]) == (6, 7)
    assert {"draft_ms_by_both", "verify_ms_by_both", "commit_ms_by_both", "draft_ms_by_none"} <= state.keys()


@pytest.mark.spec("ENG-048")
@pytest.mark.parametrize("verb", ["start", "read", "propose", "learn", "end"])
def test_a_drafter_that_raises_is_off_until_the_next_sequence(verb: str, text: list[int]) -> None:
    drafter = Breaking(oracle(text[:-8], len(PROMPT)), verb=verb)
    engine = tiny_engine(drafter=drafter)
    for _ in range(2):
        seq, out = read(engine, PROMPT), list[int]()
        while len(out) < len(text):
            accepted = perform(engine, seq, Round(len(text) - len(out)), GREEDY)
            assert isinstance(accepted, Accepted)
            out += accepted.ids
        engine.close(seq)
        assert out == text
    assert engine.state()["draft_faults"] == 2
    assert sum(call == (verb,) for call in drafter.calls) == 2
    assert engine.state()["errors"] == 0


@pytest.mark.spec("ENG-048")
def test_a_drafter_reads_the_hidden_states_of_what_is_committed(text: list[int]) -> None:
    drafter, quiet = Recording(half_right(text, len(PROMPT))), Recording()
    engine, other = tiny_engine(drafter=drafter), tiny_engine(drafter=quiet)
    seq, beside = read(engine, PROMPT), read(other, PROMPT)
    while len(seq.history) < 90:
        perform(engine, seq, Round(9), GREEDY)
    engine.ask(seq, [1, 2], [3])
    engine.force(seq, [5, 6])
    rounds(other, beside, len(seq.history) - 2 - 75)
    other.force(beside, [5, 6])
    assert sorted(drafter.rows) == sorted(quiet.rows) == list(range(seq.length))
    assert all((drafter.rows[row] - quiet.rows[row]).abs().max() < 1e-3 for row in drafter.rows)
    engine.close(seq)
    length = seq.length
    assert (drafter.calls[0], drafter.calls[-1]) == (("start", 75, 0), ("end",))
    read(engine, [*seq.history.ids, 1, 2])
    assert drafter.calls[-2:] == [("start", length + 2, length), ("read", length, 2)]


def test_what_a_drafter_knows_ends_where_the_sequence_before_parted() -> None:
    drafter = Recording()
    engine = tiny_engine(drafter=drafter)
    seq = read(engine, PROMPT)
    point = engine.snapshot(seq)
    rounds(engine, seq, 4)
    engine.restore(seq, point)
    assert drafter.calls[-1] == ("start", 75, 75)
    engine.close(seq)
    engine.close(engine.open(Prompt.of_client([*PROMPT[:40], 3, 4])))
    assert drafter.calls[-2] == ("start", 42, GRID)
    read(engine, [*PROMPT, 1])
    starts = [call for call in drafter.calls if call[0] == "start"]
    assert starts[-1] == ("start", 76, GRID), "rows above are resident, and the drafter was told to forget them"
