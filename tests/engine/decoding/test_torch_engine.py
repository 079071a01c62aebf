"""The verbs of the torch engine on random tiny models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest
import torch
from torch import Tensor

from tandem.engine.decoding.sequence import Rows, TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Round, perform
from tandem.engine.errors import EngineError
from tandem.engine.models.state import State
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, Accepted, Engine, SamplingRules, Spent, Tree
from tests.engine.decoding.engines import (
    GREEDY,
    GRID,
    PROMPT,
    ids_of,
    kept_row,
    read,
    rounds,
    tiny,
    tiny_engine,
)
from tests.engine.decoding.masks import SetMask
from tests.engine.models.memory import VOCAB

pytestmark = pytest.mark.usefixtures("kind")


@pytest.mark.spec("ENG-167")
def test_it_is_an_engine() -> None:
    engine: Engine[TorchSequence, Rows] = tiny_engine()
    assert engine.card.anchor_grid == GRID


@pytest.mark.spec("ENG-005")
def test_rounds_give_the_reference_greedy_text() -> None:
    model = tiny(4)
    engine = tiny_engine(model=model.model)
    oracle = model.oracle()
    batch = torch.tensor([ids_of(50, seed) for seed in range(4)])
    with torch.inference_mode():
        texts = oracle.generate(
            batch, attention_mask=torch.ones_like(batch), max_new_tokens=40, do_sample=False, eos_token_id=None
        )
    for prompt, text in zip(batch.tolist(), texts.tolist(), strict=True):
        seq = read(engine, prompt)
        assert rounds(engine, seq, 40) == text[50:]
        engine.close(seq)


@pytest.mark.spec("ENG-035", "ENG-036")
def test_prefill_reads_one_grid_chunk_a_call() -> None:
    engine = tiny_engine()
    seq = engine.open(Prompt.of_client(PROMPT))
    steps = [engine.prefill(seq, upto) for upto in (75, 40, 40, 75, 75, 75)]
    assert [step.done for step in steps] == [32, 40, 40, 64, 75, 75]
    assert all(step.total == 75 and step.resumed == 0 for step in steps)


@pytest.mark.spec("ENG-035")
def test_same_cuts_same_bits_and_other_cuts_close() -> None:
    rows = []
    for grid in (32, 32, 16, 256):
        engine = tiny_engine(grid=grid)
        rows.append(kept_row(engine, read(engine, PROMPT)))
    assert torch.equal(rows[0], rows[1])
    for other in rows[2:]:
        assert (rows[0] - other).abs().max() < 1e-4


def test_prefill_equals_stepping_through_the_prompt() -> None:
    engine = tiny_engine()
    whole = kept_row(engine, seq := read(engine, PROMPT))
    engine.close(seq)
    stepped = read(engine, PROMPT[:1])
    for token in PROMPT[1:]:
        engine.force(stepped, [token])
    assert (whole - kept_row(engine, stepped)).abs().max() < 1e-4


@pytest.mark.spec("ENG-038")
def test_a_round_without_a_drafter_is_one_token() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    for limit in (1, 8):
        assert engine.draft(seq, limit) == EMPTY_TREE
        accepted = perform(engine, seq, Round(limit), GREEDY)
        assert isinstance(accepted, Accepted)
        assert len(accepted.ids) == 1
        assert accepted.drafted == accepted.draft_accepted == 0


def test_the_walk_takes_the_targets_token_after_penalties_and_mask() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    row = kept_row(engine, seq)
    first = int(row.argmax())
    row[first] = -torch.inf
    second = int(row.argmax())
    point = engine.snapshot(seq)
    rules = [
        replace(GREEDY, logit_bias={first: -100.0}),
        replace(GREEDY, mask=SetMask(frozenset(range(VOCAB)) - {first})),
        replace(GREEDY, temperature=1.0, top_k=1, logit_bias={second: 100.0}),
    ]
    for each in rules:
        engine.restore(seq, point)
        assert rounds(engine, seq, 1, each) == [second]


def test_the_prefill_gives_the_first_token_and_the_newest_waits_for_the_next_verify() -> None:
    engine, forwarded = counting_engine()
    seq = read(engine, PROMPT)
    del forwarded[:]
    rounds(engine, seq, 1)
    assert forwarded == []
    rounds(engine, seq, 2)
    assert forwarded == [(75, 1), (76, 1)]


def counting_engine() -> tuple[TorchEngine, list[tuple[int, int]]]:
    """An engine and the list of (start, rows) of its forwards."""
    model, forwarded = tiny().model, []
    forward = model.forward

    def counted(ids: Tensor, start: int, state: State) -> Tensor:
        forwarded.append((start, len(ids)))
        return forward(ids, start, state)

    model.forward = counted  # type: ignore[method-assign]
    return tiny_engine(model=model), forwarded


@pytest.mark.spec("ENG-083", "API-173")
def test_choices_draw_by_seed_and_index_and_the_first_is_the_single_answer() -> None:
    engine = tiny_engine()
    rules = SamplingRules(temperature=1.5, seed=77)
    seq = read(engine, PROMPT)
    single = rounds(engine, seq, 12, rules)
    engine.close(seq)
    seq = read(engine, PROMPT)
    point = engine.snapshot(seq)
    choices = []
    for choice in range(3):
        engine.restore(seq, point)
        choices.append(rounds(engine, seq, 12, replace(rules, choice=choice)))
    assert choices[0] == single
    assert len({tuple(choice) for choice in choices}) == 3


@pytest.mark.spec("ENG-067", "API-173")
def test_a_seed_gives_the_same_text_whatever_ran_before() -> None:
    engine = tiny_engine()
    rules = SamplingRules(temperature=1.5, top_p=0.95, seed=-3)
    texts = []
    for before in (0, 5):
        other = read(engine, ids_of(20, before))
        rounds(engine, other, before, SamplingRules(temperature=1.0))
        engine.close(other)
        seq = read(engine, PROMPT)
        texts.append(rounds(engine, seq, 16, rules))
        engine.close(seq)
    assert texts[0] == texts[1]
    seq = read(engine, PROMPT)
    assert rounds(engine, seq, 16, replace(rules, seed=-4)) != texts[0]


@pytest.mark.spec("ENG-077", "ENG-078")
def test_penalties_see_prompt_and_output_of_the_sequence() -> None:
    engine = tiny_engine()
    for token in rounds(engine, seq := read(engine, PROMPT), 1):
        point = engine.snapshot(seq)
        [plain] = rounds(engine, seq, 1)
        engine.restore(seq, point)
        engine.force(seq, [plain])
        row = kept_row(engine, seq)
        heavy = replace(GREEDY, presence_penalty=2.0, frequency_penalty=2.0, logit_bias={plain: 100.0}, logprobs=2)
        accepted = perform(engine, seq, Round(1), heavy)
        assert isinstance(accepted, Accepted)
        wanted = row.double()
        for written in (token, plain):
            wanted[written] -= 2.0
        for written in {token, plain}:
            wanted[written] -= 2.0
        wanted[plain] += 100.0
        assert accepted.logprobs[0].logprob == pytest.approx(
            float(torch.log_softmax(wanted, 0)[accepted.ids[0]]), abs=1e-4
        )


@pytest.mark.spec("ENG-078", "MON-133")
@pytest.mark.parametrize("dropped", [0, 1])
def test_what_no_client_sees_is_no_output_to_penalties(dropped: int) -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    written = rounds(engine, seq, 3)
    heavy = replace(GREEDY, presence_penalty=2.0, logprobs=2)
    [said] = rounds(engine, seq, 1, heavy)  # they are counted by now
    engine.force(seq, [7, 8], hidden=True, dropped=dropped)
    row = kept_row(engine, seq)
    accepted = perform(engine, seq, Round(1), heavy)
    assert isinstance(accepted, Accepted)
    wanted = row.double()
    for token in {*written, *([] if dropped else [said])}:
        wanted[token] -= 2.0
    best = int(wanted.argmax())
    assert accepted.ids == (best,)
    assert accepted.logprobs[0].logprob == pytest.approx(float(torch.log_softmax(wanted, 0)[best]), abs=1e-4)


@pytest.mark.spec("ENG-082")
def test_logprobs_come_with_every_accepted_token() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    row = kept_row(engine, seq)
    accepted = perform(engine, seq, Round(1), replace(GREEDY, logprobs=20))
    assert isinstance(accepted, Accepted)
    [logprob] = accepted.logprobs
    assert logprob.token == accepted.ids[0] == logprob.top[0][0]
    assert len(logprob.top) == 20
    assert logprob.logprob == pytest.approx(float(torch.log_softmax(row, 0).max()), abs=1e-5)


@pytest.mark.spec("ENG-015", "ENG-033")
def test_a_sequence_fills_its_window_and_no_more() -> None:
    engine = tiny_engine(max_len=48)
    seq = read(engine, PROMPT[:47])
    rounds(engine, seq, 1)
    with pytest.raises(EngineError, match="48"):
        rounds(engine, seq, 1)
    engine.close(seq)
    seq = read(engine, PROMPT[:40])
    with pytest.raises(EngineError, match="48"):
        engine.force(seq, ids_of(9))
    engine.close(seq)
    with pytest.raises(EngineError, match="48"):
        engine.open(Prompt.of_client(PROMPT[:48]))
    assert len(rounds(engine, read(engine, PROMPT[:40]), 8)) == 8


def test_misuse_is_refused() -> None:
    engine = tiny_engine()
    with pytest.raises(EngineError, match="no tokens"):
        engine.open(Prompt.of_client([]))
    seq = engine.open(Prompt.of_client(PROMPT))
    with pytest.raises(EngineError, match="one at a time"):
        engine.open(Prompt.of_client(PROMPT))
    unread: list[Callable[[], object]] = [
        lambda: engine.verify([(seq, EMPTY_TREE)]),
        lambda: engine.force(seq, [1]),
        lambda: engine.ask(seq, [1], [2]),
    ]
    for verb in unread:
        with pytest.raises(EngineError, match="prefill the rest"):
            verb()
    with pytest.raises(EngineError, match="at least one"):
        engine.draft(seq, 0)
    with pytest.raises(EngineError, match="snapshot"):
        engine.restore(seq, object())
    engine.prefill(seq, 75)
    engine.close(seq)
    engine.close(seq)
    closed: list[Callable[[], object]] = [
        lambda: engine.prefill(seq, 75),
        lambda: engine.draft(seq, 1),
        lambda: engine.verify([(seq, EMPTY_TREE)]),
        lambda: engine.snapshot(seq),
    ]
    for verb in closed:
        with pytest.raises(EngineError, match="closed"):
            verb()
    seq = read(engine, PROMPT)
    with pytest.raises(EngineError, match="at least one token"):
        engine.draft(seq, 0)
    with pytest.raises(EngineError, match="cannot keep -1"):
        engine.trim(seq, -1)
    tree = Tree((1,), (-1,))
    [old], [_] = engine.verify([(seq, tree)]), engine.verify([(seq, tree)])
    with pytest.raises(EngineError, match="earlier verify"):
        engine.accept(seq, old, GREEDY)


def test_closing_an_old_sequence_leaves_the_open_one_alone() -> None:
    engine = tiny_engine()
    old = read(engine, PROMPT)
    engine.close(old)
    seq = read(engine, PROMPT)
    engine.close(old)
    assert len(rounds(engine, seq, 2)) == 2
    with pytest.raises(EngineError, match="one at a time"):
        engine.open(Prompt.of_client(PROMPT))


@pytest.mark.spec("ENG-045")
def test_rounds_are_timed_by_request_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count(0, 0.25)
    monkeypatch.setattr("tandem.engine.decoding.rounds.time.perf_counter", lambda: next(ticks))
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    kept, *forwarded = [perform(engine, seq, Round(1), GREEDY) for _ in range(3)]
    assert isinstance(kept, Accepted)
    assert kept.spent == Spent(commit=250.0), "the prefill gave the row of the first token"
    assert all(isinstance(each, Accepted) and each.spent == Spent(verify=250.0, commit=250.0) for each in forwarded)
    state = engine.state()
    assert (state["draft_ms_by_none"], state["verify_ms_by_none"], state["commit_ms_by_none"]) == (0, 500, 750)
    assert sum((each.spent for each in forwarded if isinstance(each, Accepted)), Spent()) == Spent(0.0, 500.0, 500.0)


def test_state_counts_in_plain_numbers() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    rounds(engine, seq, 5)
    engine.force(seq, [1, 2])
    engine.ask(seq, [1, 2, 3], [4])
    engine.close(seq)
    read(engine, PROMPT)
    state = engine.state()
    assert all(type(value) is int for value in state.values())
    wanted = {
        "requests": 2,
        "prefilled_tokens": 75 + 11,
        "resumed_tokens": 64,
        "rounds": 5,
        "drafted_tokens": 0,
        "accepted_tokens": 0,
        "committed_tokens": 5,
        "forced_tokens": 2,
        "asked_tokens": 3,
        "errors": 0,
        "resident_hits": 1,
        "resident_misses": 1,
        "kv_rows": 256,
        "kv_rows_used": 75,
    }
    assert wanted.items() <= state.items()


@pytest.mark.parametrize("kind", ["llama"], indirect=True)
def test_cost_gives_bytes() -> None:
    assert tiny_engine().cost() == {
        "bytes_per_anchor": 0,
        "bytes_per_snapshot": VOCAB * 4,
        "bytes_per_token": 2 * 2 * 2 * 16 * 4,
    }


@pytest.mark.spec("ENG-018")
def test_two_engines_with_different_settings_share_a_process() -> None:
    model = tiny().model
    one, other = tiny_engine(model=model, grid=16), tiny_engine(model=model, grid=64, max_len=128, resident=False)
    seq, beside = one.open(Prompt.of_client(PROMPT)), other.open(Prompt.of_client(PROMPT))
    assert (one.prefill(seq, 75).done, other.prefill(beside, 75).done) == (16, 64)
    while one.prefill(seq, 75).done < 75 or other.prefill(beside, 75).done < 75:
        pass
    turns = [rounds(one, seq, 1) + rounds(other, beside, 1) for _ in range(4)]
    alone = tiny_engine(model=model)
    assert turns == [[token, token] for token in rounds(alone, read(alone, PROMPT), 4)]
