"""The resident prefix of the torch engine: a resumed run is a cold one, only sooner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Ended, perform
from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeText
from tandem.engine.text.prompt import Prompt, Span
from tandem.engine.text.reading.deltas import Delta, Finish
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import Prefilled, SamplingRules, TokenLogprob
from tests.engine.decoding.engines import (
    GRID,
    PROMPT,
    ids_of,
    kept_row,
    read,
    rounds,
    same,
    state_of,
    tiny_engine,
    trace,
)
from tests.engine.models.memory import VOCAB

pytestmark = pytest.mark.usefixtures("kind")

NEAR_TIE = 1e-3
"""Nats by which the logits of two runs of a tiny fp32 model may part (ENG-066)."""


def turn(engine: TorchEngine, ids: Sequence[int], count: int = 8) -> tuple[int, list[int]]:
    """One request: the row it resumed from and the ids it wrote."""
    seq = read(engine, ids)
    written = rounds(engine, seq, count)
    engine.close(seq)
    return seq.resumed, written


def cold_turn(ids: Sequence[int], count: int = 8) -> list[int]:
    return turn(tiny_engine(resident=False), ids, count)[1]


@pytest.mark.spec("ENG-110", "ENG-073")
def test_the_next_turn_resumes_at_the_end_and_reads_only_what_is_new() -> None:
    engine = tiny_engine()
    _, written = turn(engine, PROMPT)
    before = engine.state()["prefilled_tokens"]
    ids = [*PROMPT, *written, *ids_of(10, 2)]
    resumed, again = turn(engine, ids)
    assert resumed == 75 + 8 - 1, "the newest token was not forwarded: the next prompt brings it"
    assert engine.state()["prefilled_tokens"] - before == 11
    assert again == cold_turn(ids)


@pytest.mark.spec("ENG-035")
def test_after_an_end_the_prompt_is_cut_at_the_absolute_lines_again() -> None:
    engine = tiny_engine()
    _, written = turn(engine, PROMPT)
    ids = [*PROMPT, *written, *ids_of(60, 2)]
    seq = engine.open(Prompt.of_client(ids))
    steps = [engine.prefill(seq, len(ids)) for _ in range(3)]
    assert steps == [Prefilled(rows, 143, 82, "end") for rows in (96, 128, 143)]


@pytest.mark.spec("ENG-107")
def test_what_diverges_before_the_end_goes_back_to_an_anchor() -> None:
    engine = tiny_engine()
    _, written = turn(engine, PROMPT, 30)
    whole = [*PROMPT, *written]
    other = (whole[100] + 1) % VOCAB
    for ids, row in [
        (PROMPT, 64),
        ([*PROMPT, *written[:25], other, other], 64),  # line 96 was written by rounds
        ([*PROMPT[:40], (PROMPT[40] + 1) % VOCAB, *PROMPT[41:]], 32),
        ([(PROMPT[0] + 1) % VOCAB, *PROMPT[1:]], 0),
    ]:
        engine = tiny_engine()
        turn(engine, PROMPT, 30)
        resumed, again = turn(engine, ids)
        assert resumed == row
        assert again == cold_turn(ids)


def test_a_last_message_sent_again_goes_back_to_the_end_of_the_turn_before() -> None:
    engine = tiny_engine()
    _, written = turn(engine, PROMPT)
    second = [*PROMPT, *written, *ids_of(9, 2)]
    _, answer = turn(engine, second)
    assert turn(engine, second) == (82, answer)
    edited = [*PROMPT, *written, *ids_of(12, 3)]
    assert turn(engine, edited) == (82, cold_turn(edited))


@pytest.mark.spec("ENG-037", "ENG-073", "API-167", "SCH-077")
def test_a_stopped_prefill_is_continued_by_the_next_request() -> None:
    engine = tiny_engine()
    seq = engine.open(Prompt.of_client(PROMPT))
    engine.prefill(seq, 75)
    engine.prefill(seq, 75)
    engine.close(seq)
    again = engine.open(Prompt.of_client(PROMPT))
    assert engine.prefill(again, 75) == Prefilled(75, 75, 64, "resident")
    cold = tiny_engine(resident=False)
    seq = read(cold, PROMPT)
    assert same([kept_row(engine, again)], [kept_row(cold, seq)])
    assert torch.equal(state_of(engine, again), state_of(cold, seq))
    assert trace(engine, again)[0] == trace(cold, seq)[0]


@pytest.mark.spec("ENG-037")
def test_a_prompt_given_up_before_its_first_chunk_leaves_the_resident_one() -> None:
    engine = tiny_engine()
    _, written = turn(engine, PROMPT)
    for ids in (ids_of(60, 7), [*PROMPT[:40], 1, 2]):
        engine.close(engine.open(Prompt.of_client(ids)))
    assert turn(engine, [*PROMPT, *written])[0] == 82


@pytest.mark.spec("ENG-037")
def test_rows_of_a_stopped_decode_are_resumed() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    written = rounds(engine, seq, 3)
    engine.close(seq)
    ids = [*PROMPT, *written, 5]
    assert turn(engine, ids) == (77, cold_turn(ids))


def test_a_prompt_cut_off_the_grid_gives_text_class_lines() -> None:
    engine = tiny_engine()
    seq = engine.open(Prompt.of_client(PROMPT))
    for upto in (10, 75, 75, 75):
        engine.prefill(seq, upto)
    engine.close(seq)
    again = read(engine, PROMPT)
    assert again.resumed == 64
    assert {anchor.exactness for anchor in again.anchors.all} == {"text"}
    assert rounds(engine, again, 8) == cold_turn(PROMPT)


@pytest.mark.spec("ENG-107")
def test_forced_ids_are_rows_and_a_prompt_without_them_stays_before_them() -> None:
    engine = tiny_engine()

    def hidden_turn() -> list[int]:
        seq = read(engine, PROMPT)
        first = rounds(engine, seq, 2)
        engine.force(seq, HIDDEN)
        last = rounds(engine, seq, 2)
        engine.close(seq)
        return [*first, *last]

    written = hidden_turn()
    visible = [*PROMPT, *written, 5, 6]
    assert turn(engine, visible) == (64, cold_turn(visible))
    assert hidden_turn() == written
    whole = [*PROMPT, *written[:2], *HIDDEN, *written[2:], 5, 6]
    assert turn(engine, whole) == (75 + 2 + 40 + 1, cold_turn(whole))


HIDDEN = ids_of(40, 11)


@pytest.mark.spec("ENG-110")
def test_after_choices_the_last_one_is_resident() -> None:
    engine = tiny_engine()
    rules = SamplingRules(temperature=1.5, seed=5)

    def choices() -> list[list[int]]:
        seq = read(engine, PROMPT)
        point = engine.snapshot(seq)
        texts = []
        for choice, count in enumerate((9, 4, 6)):
            engine.restore(seq, point)
            texts.append(rounds(engine, seq, count, replace(rules, choice=choice)))
        engine.close(seq)
        return texts

    first, _, last = choices()
    ids = [*PROMPT, *last, 3]
    assert turn(engine, ids) == (75 + 5, cold_turn(ids))
    choices()
    ids = [*PROMPT, *first, 3]
    assert turn(engine, ids) == (64, cold_turn(ids))


def test_a_snapshot_brings_its_anchors_into_another_sequence() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    point = engine.snapshot(seq)
    engine.close(seq)
    turn(engine, ids_of(100, 8))
    fresh = engine.open(Prompt.of_client(ids_of(20, 9)))
    engine.restore(fresh, point)
    written = rounds(engine, fresh, 4)
    engine.close(fresh)
    ids = [*PROMPT, *written]
    assert turn(engine, ids) == (75 + 3, cold_turn(ids))
    assert turn(engine, PROMPT) == (64, cold_turn(PROMPT))


@pytest.mark.spec("ENG-041")
def test_a_question_leaves_what_is_resident_as_it_is() -> None:
    plain, asked = tiny_engine(), tiny_engine()
    turn(plain, PROMPT, 3)
    seq = read(asked, PROMPT)
    written = rounds(asked, seq, 3)
    asked.ask(seq, ids_of(45, 3), [1, 2])
    asked.close(seq)
    ids = [*PROMPT, *written, 5]
    seq, other = read(plain, ids), read(asked, ids)
    assert seq.resumed == other.resumed == 77
    assert torch.equal(state_of(plain, seq), state_of(asked, other))


@pytest.mark.spec("ENG-106", "API-157", "API-161")
def test_a_resume_is_reported_with_what_of_it_the_client_sent() -> None:
    engine = tiny_engine()
    spans = (Span("client", 0, 20), Span("note", 20, 30), Span("client", 30, 75))
    finishes = [drive(engine, Prompt(tuple(PROMPT), spans, 75)) for _ in range(2)]
    cold, warm = (finish.usage for finish in finishes)
    assert (cold.cached, cold.engine_cached, cold.engine_prompt) == (0, 0, 75)
    assert (warm.cached, warm.engine_cached, warm.engine_prompt) == (54, 64, 11)
    assert [finish.timings.cache_source for finish in finishes] == ["none", "prefix"]


def drive(engine: TorchEngine, prompt: Prompt) -> Finish:
    """Four tokens of an answer by the decode loop, driven as a slot drives it."""
    generation = Generation(
        prompt, SamplingRules(), limit=4, reader=Mute(FakeText()), end_ids=set(), grid=GRID, arrived_at=0.0
    )
    seq = engine.open(prompt)
    generation.start(0.0)
    while not isinstance(work := generation.next(), Ended):
        generation.feed(perform(engine, seq, work, generation.rules), 0.0)
    engine.close(seq)
    assert generation.finish is not None
    return generation.finish


class Mute(PlainReader):
    """A reader that hands nothing out."""

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        return []


@pytest.mark.spec("ENG-123")
def test_clear_gives_up_what_is_resident() -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    with pytest.raises(EngineError, match="between two requests"):
        engine.clear()
    engine.close(seq)
    with pytest.raises(EngineError, match="no cache is called attic"):
        engine.clear(["attic"])
    assert engine.clear([]) == {}
    cost = engine.cost()
    assert engine.clear() == {"resident": 75 * cost["bytes_per_token"] + 3 * cost["bytes_per_anchor"]}
    assert engine.clear(["resident"]) == {"resident": 0}
    assert read(engine, PROMPT).resumed == 0


def test_state_says_what_is_held_and_what_it_saved() -> None:
    engine = tiny_engine()
    _, written = turn(engine, PROMPT)
    turn(engine, [*PROMPT, *written, 5])
    turn(engine, ids_of(40, 3), 1)
    state, cost = engine.state(), engine.cost()
    wanted = {
        "resident_hits": 1,
        "resident_misses": 2,
        "resumed_tokens": 82,
        "resident_rows": 40,
        "resident_anchors": 2,
        "resident_bytes": 40 * cost["bytes_per_token"] + 2 * cost["bytes_per_anchor"],
        "kv_rows_used": 40,
    }
    assert wanted.items() <= state.items()


def test_switched_off_every_request_is_a_first_one() -> None:
    engine = tiny_engine(resident=False)
    written = cold_turn(PROMPT)
    for ids in (PROMPT, [*PROMPT, *written, 5]):
        fresh = tiny_engine()
        seq, first = read(engine, ids), read(fresh, ids)
        assert seq.resumed == 0
        assert torch.equal(state_of(engine, seq), state_of(fresh, first))
        (out, rows), (first_out, first_rows) = trace(engine, seq), trace(fresh, first)
        assert out == first_out
        assert same(rows, first_rows)
        engine.close(seq)
    assert engine.state()["resumed_tokens"] == engine.state()["resident_rows"] == 0


@dataclass(frozen=True)
class Turn:
    """One request of a random conversation."""

    keep: int
    """How many ids of what the last one left its prompt begins with."""
    fresh: int
    chunks: int
    """Prefill verbs before the client leaves."""
    choices: int
    rounds: int
    forced: int
    asked: bool


turns = st.builds(
    Turn,
    keep=st.one_of(st.just(1000), st.integers(0, 150)),
    fresh=st.integers(0, 40),
    chunks=st.one_of(st.just(9), st.integers(0, 4)),
    choices=st.integers(1, 2),
    rounds=st.integers(0, 6),
    forced=st.sampled_from((0, 0, 3, 20)),
    asked=st.booleans(),
)


class Cold:
    """What a run that has never seen anything else says about the same ids; one engine for all."""

    def __init__(self) -> None:
        self._engine = tiny_engine(resident=False)

    def check(self, prompt: Sequence[int], taken: Sequence[int], rows: Sequence[Tensor | None], *, exact: bool) -> None:
        """`taken` came after the prompt, each from its row; a forced id has None and no say.

        `exact` asks for the same bits as far as both runs make the same passes: until ids are forced together.
        """
        seq = read(self._engine, prompt)
        for token, row in zip(taken, rows, strict=True):
            if row is None:
                exact = False
            else:
                cold = kept_row(self._engine, seq)
                assert torch.equal(cold, row) if exact else (cold - row).abs().max() < NEAR_TIE
                assert cold.max() - cold[token] < NEAR_TIE
            self._engine.force(seq, [token])
        self._engine.close(seq)


def converse(engine: TorchEngine, conversation: Sequence[Turn], *, bit_only: bool = False) -> None:
    cold = Cold()
    last: list[int] = []
    for number, each in enumerate(conversation):
        prompt = [*last[: each.keep], *ids_of(each.fresh, number)][:180]
        if not prompt:
            continue
        seq = engine.open(Prompt.of_client(prompt))
        exact = all(anchor.exactness == "bit" for anchor in seq.anchors.all)
        assert exact or not bit_only
        for _ in range(each.chunks):
            engine.prefill(seq, len(prompt))
        last = [*prompt, *(answer(engine, seq, each, cold, exact) if seq.prompt_read else ())]
        engine.close(seq)


def answer(engine: TorchEngine, seq: TorchSequence, each: Turn, cold: Cold, exact: bool) -> list[int]:
    """The choices of one request, each held against a cold run; the ids of the last."""
    point = engine.snapshot(seq)
    written: list[int] = []
    for _ in range(each.choices):
        engine.restore(seq, point)
        written, rows = write(engine, seq, each)
        cold.check(seq.prompt.ids, written, rows, exact=exact)
    return written


def write(engine: TorchEngine, seq: TorchSequence, each: Turn) -> tuple[list[int], list[Tensor | None]]:
    """Rounds, then forced ids, then rounds: the ids and the rows they came from."""
    ids, rows = trace(engine, seq, each.rounds)
    if each.asked:
        engine.ask(seq, [1, 2, 3], [4, 5])
    forced = ids_of(each.forced, 99)
    engine.force(seq, forced)
    more, more_rows = trace(engine, seq, 2)
    return [*ids, *forced, *more], [*rows, *[None] * each.forced, *more_rows]


@pytest.mark.spec("ENG-065", "ENG-073", "ENG-105", "ENG-110")
@given(st.lists(turns, min_size=2, max_size=5))
@settings(max_examples=25, deadline=None)
def test_random_conversations_are_what_they_are_cold(conversation: list[Turn]) -> None:
    converse(tiny_engine(), conversation)


@pytest.mark.spec("ENG-035", "ENG-073", "ENG-107")
@given(st.lists(turns, min_size=2, max_size=5))
@settings(max_examples=15, deadline=None)
def test_without_end_anchors_random_conversations_are_bit_equal(conversation: list[Turn]) -> None:
    converse(tiny_engine(end_anchor=False), conversation, bit_only=True)
