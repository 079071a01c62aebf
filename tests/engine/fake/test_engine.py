from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tandem.engine.decoding.work import Ask, Force, Prefill, perform
from tandem.engine.errors import EngineError
from tandem.engine.fake import FIXED_SENTENCE, FakeEngine
from tandem.engine.fake.engine import FakeRows, FakeSeq
from tandem.engine.fake.vocabulary import IM_END, IM_START, THINK_END
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Accepted, Engine, Prefilled, Tree
from tests.engine.fake.running import GREEDY, ids, one_round, opened, text

# --- scripts


@pytest.mark.spec("ENG-170")
def test_the_script_is_what_comes_out_and_then_the_end_token() -> None:
    engine = FakeEngine()
    verbs: Engine[FakeSeq, FakeRows] = engine
    assert verbs.card.vocab_size == verbs.text.vocab_size
    out = ids(engine, {"say": "<think>a</think> Hello, world"}, count=50)
    assert text(engine, out) == "<think>a</think> Hello, world"
    assert out[-1] == IM_END


@pytest.mark.spec("ENG-170")
@pytest.mark.parametrize("block", [1, 2, 5])
def test_same_script_same_output_whatever_the_block(block: int) -> None:
    script = {"say": "a b c d e f g", "block": block}
    first, second = (ids(FakeEngine(), script) for _ in range(2))
    assert first == second == ids(FakeEngine(), {"say": "a b c d e f g"})


@pytest.mark.spec("ENG-170")
def test_a_round_commits_a_block_within_the_limit() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": "a b c d e f", "block": 4})
    first = one_round(engine, seq)
    assert (len(first.ids), first.drafted, first.draft_accepted) == (4, 3, 3)
    assert len(one_round(engine, seq, limit=1).ids) == 1
    last = one_round(engine, seq)
    assert text(engine, last.ids) == " f"
    assert (last.ids[-1], last.drafted) == (IM_END, 2)


def test_loop_and_eos_false_never_end_by_themselves() -> None:
    engine = FakeEngine()
    assert text(engine, ids(engine, {"say": "ab c", "loop": True}, count=5)) == "ab cab cab"
    endless = ids(engine, {"say": "ab", "eos": False}, count=40)
    assert text(engine, endless).startswith(f"ab{FIXED_SENTENCE}{FIXED_SENTENCE}")


@pytest.mark.spec("ENG-043", "ENG-170")
@pytest.mark.parametrize("block", [1, 5])
def test_fail_at_raises_at_that_token_and_those_before_it_stand(block: int) -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": "a b c d", "fail_at": 3, "block": block})
    while seq.written < 3:
        one_round(engine, seq)
    assert text(engine, seq.output) == "a b c"
    with pytest.raises(EngineError, match="token 3"):
        one_round(engine, seq)
    engine.close(seq)
    assert engine.state()["open_sequences"] == 0
    assert text(engine, ids(engine, {"say": "next"})) == "next"


def test_fail_at_zero_gives_nothing() -> None:
    engine = FakeEngine()
    with pytest.raises(EngineError, match="token 0"):
        ids(engine, {"say": "a", "fail_at": 0})


def test_then_speaks_after_a_forced_turn_start_alone() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": "a b", "then": ["c"], "block": 8})
    perform(engine, seq, Force((65,), visible=True), GREEDY)
    assert text(engine, one_round(engine, seq).ids) == "a b"
    perform(engine, seq, Force((IM_START, 65), visible=False), GREEDY)
    assert text(engine, one_round(engine, seq).ids) == "c"
    perform(engine, seq, Force((IM_START, 65), visible=False), GREEDY)
    assert text(engine, one_round(engine, seq, limit=100).ids) == "This is the fake engine, and it"


@pytest.mark.spec("ENG-170")
@pytest.mark.parametrize("say", ["a b</think> c d", ["a", " b", "</th", "ink>", " c", " d"]])
@pytest.mark.parametrize("block", [1, 3, 8])
def test_a_forced_closer_has_the_answer_follow(say: Any, block: int) -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": say, "block": block})
    one_round(engine, seq, limit=1)
    snapshot = engine.snapshot(seq)
    for _ in range(2):
        perform(engine, seq, Force((10, THINK_END, 10), visible=False), GREEDY)
        assert text(engine, rest(engine, seq)) == " c d"
        # The script's closer is behind it now.
        perform(engine, seq, Force((THINK_END,), visible=True), GREEDY)
        assert rest(engine, seq) == [IM_END]
        engine.restore(seq, snapshot)
    assert text(engine, rest(engine, seq)) == " b</think> c d"


def test_a_forced_closer_leaves_a_script_without_one_where_it_is() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": "a b", "then": ["x</think>y"]})
    one_round(engine, seq)
    perform(engine, seq, Force((THINK_END,), visible=True), GREEDY)
    assert text(engine, rest(engine, seq)) == " b"
    # One before a turn start belongs to the turn that ends there; one behind it to the new turn's own head.
    perform(engine, seq, Force((THINK_END, IM_START, THINK_END), visible=False), GREEDY)
    assert text(engine, rest(engine, seq)) == "x</think>y"


def test_a_forced_closer_in_a_loop_goes_to_the_next_one_round() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": ["a", "</think>", "b"], "loop": True})
    one_round(engine, seq)
    perform(engine, seq, Force((THINK_END,), visible=True), GREEDY)
    assert text(engine, one_round(engine, seq).ids) == "b"
    for _ in range(2):
        one_round(engine, seq)
    perform(engine, seq, Force((THINK_END,), visible=True), GREEDY)
    assert text(engine, [token for _ in range(3) for token in one_round(engine, seq).ids]) == "ba</think>"


def rest(engine: FakeEngine, seq: FakeSeq) -> list[int]:
    """What is still said, through the end token."""
    out: list[int] = []
    while not out or out[-1] != IM_END:
        out += one_round(engine, seq).ids
    return out


# --- verbs


@pytest.mark.spec("ENG-035", "ENG-036")
def test_a_prefill_reads_at_most_one_grid_chunk() -> None:
    engine = FakeEngine(grid=8)
    seq = opened(engine, {"say": "a"}, read=False)
    total = len(seq.prompt.ids)
    assert perform(engine, seq, Prefill(total), GREEDY) == Prefilled(8, total)
    assert perform(engine, seq, Prefill(10), GREEDY) == Prefilled(10, total)
    assert perform(engine, seq, Prefill(total), GREEDY) == Prefilled(16, total)
    assert perform(engine, seq, Prefill(4), GREEDY) == Prefilled(16, total)


def test_time_is_simulated_and_handed_out_once() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": "a b c", "token_ms": 10, "prefill_ms_per_token": 2, "block": 2})
    assert engine.take_elapsed() == pytest.approx(len(seq.prompt.ids) * 0.002)
    one_round(engine, seq)
    assert engine.take_elapsed() == pytest.approx(0.020)
    assert engine.take_elapsed() == 0.0


@pytest.mark.spec("ENG-041")
def test_a_question_is_answered_evenly_and_changes_nothing() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": "a b"})
    before = engine.snapshot(seq)
    assert engine.ask(seq, [65], [1, 2, 3, 4]) == (0.25,) * 4
    assert engine.snapshot(seq) == before
    assert perform(engine, seq, Ask((65,), (1,)), GREEDY).probabilities == (1.0,)  # type: ignore[union-attr]


@pytest.mark.spec("ENG-083")
def test_a_restored_sequence_goes_on_from_the_snapshot_which_stays_usable() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": "a b c", "block": 2})
    snapshot = engine.snapshot(seq)
    first = one_round(engine, seq).ids
    for _ in range(2):
        engine.restore(seq, snapshot)
        assert one_round(engine, seq).ids == first
    with pytest.raises(EngineError, match="not a snapshot"):
        engine.restore(seq, "x")


@pytest.mark.spec("ENG-038")
def test_a_walk_follows_any_tree_and_ends_at_an_end_token() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": ["a", "b", "c"]})
    tree = Tree((120, 97, 120, 98, 99), (-1, -1, 1, 1, 3))
    [rows] = engine.verify([(seq, tree)])
    assert engine.accept(seq, rows, GREEDY) == Accepted((97, 98, 99, IM_END), (), 5, 3)


def test_the_window_holds() -> None:
    engine = FakeEngine(max_len=8)
    with pytest.raises(EngineError, match="window of 8"):
        engine.open(Prompt.of_client(range(65, 73)))
    seq = engine.open(Prompt.of_client(range(65, 72)))
    engine.prefill(seq, 7)
    one_round(engine, seq)
    with pytest.raises(EngineError, match="window of 8"):
        one_round(engine, seq)


def test_misuse_ends_the_request_with_a_reason() -> None:
    engine = FakeEngine()
    with pytest.raises(EngineError, match="no tokens"):
        engine.open(Prompt.of_client(()))
    with pytest.raises(EngineError, match="@fake"):
        engine.open(Prompt.of_client(tuple(b"@fake {")))
    seq = opened(engine, {"say": "a"}, read=False)
    with pytest.raises(EngineError, match="prefill the rest"):
        one_round(engine, seq)
    engine.prefill(seq, len(seq.prompt.ids))
    with pytest.raises(EngineError, match="at least one token"):
        engine.draft(seq, 0)
    engine.close(seq)
    engine.close(seq)
    with pytest.raises(EngineError, match="closed"):
        engine.snapshot(seq)


@pytest.mark.spec("ENG-170")
def test_a_plain_prompt_is_searched_for_its_script() -> None:
    engine = FakeEngine()
    seq = engine.open(Prompt.of_client(tuple(b'@fake {"say": "z"}')))
    engine.prefill(seq, 100)
    assert one_round(engine, seq).ids == (ord("z"),)


def test_every_verb_is_recorded_with_its_time_and_without_text() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": "a", "token_ms": 10})
    one_round(engine, seq)
    engine.force(seq, [65])
    engine.ask(seq, [65, 66], [1])
    engine.restore(seq, engine.snapshot(seq))
    engine.close(seq)
    verbs = ["open", "prefill", "draft", "verify", "accept", "force", "ask", "snapshot", "restore", "close"]
    assert [call.verb for call in engine.calls] == verbs
    assert {call.verb: call.at for call in engine.calls}["force"] == pytest.approx(0.010)
    assert all(isinstance(value, int) for call in engine.calls for value in call.args.values())
    state = engine.state()
    assert (state["requests"], state["rounds"], state["committed_tokens"]) == (1, 1, 1)
    assert set(engine.cost()) == {"bytes_per_anchor", "bytes_per_snapshot", "bytes_per_token"}


@pytest.mark.spec("ENG-170")
def test_no_tensor_library_is_imported() -> None:
    code = "import sys, tandem.engine.fake; print(sorted({'torch', 'numpy', 'trio'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
