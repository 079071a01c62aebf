from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.work import Ended, Prefill, Round, perform
from tandem.engine.errors import EngineError
from tandem.engine.fake import FIXED_SENTENCE, FakeEngine
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import CallEnd, Content, Delta, Finish, Usage
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import Accepted, Prefilled, SamplingRules, TokenLogprob
from tests.engine.decoding.driving import drive, finish_of, generation_of, run, text_of

WORDS = {"say": ["one", " two", " three", " four"]}


# --- works


@pytest.mark.spec("ENG-035", "ENG-036", "ENG-183")
def test_a_prompt_is_read_in_chunks_that_end_on_the_grid() -> None:
    engine = FakeEngine(grid=4)
    generation = generation_of(engine)
    rows = len(generation.prompt.ids)
    generation.start(0.0)
    cuts = []
    while isinstance(work := generation.next(), Prefill):
        assert generation.next() == work
        cuts.append(work.upto)
        generation.feed(Prefilled(work.upto, rows), 0.0)
    assert cuts == [*range(4, rows, 4), rows]
    assert work == Round(100)


@pytest.mark.spec("ENG-035")
def test_a_resumed_prefill_uses_the_same_cuts_from_where_it_is() -> None:
    generation = generation_of(FakeEngine(grid=4))
    rows = len(generation.prompt.ids)
    assert rows > 8
    generation.start(0.0)
    generation.feed(Prefilled(8, rows, resumed=8), 0.0)
    assert generation.next() == Prefill(min(12, rows))
    assert generation.prefilled == Prefilled(8, rows, 8)


def test_a_round_may_commit_what_is_left() -> None:
    engine = FakeEngine()
    generation = generation_of(engine, {"say": "a b c", "block": 2}, limit=5)
    generation.start(0.0)
    seq = engine.open(generation.prompt)
    limits = []
    while not isinstance(work := generation.next(), Ended):
        if isinstance(work, Round):
            limits.append(work.limit)
        generation.feed(perform(engine, seq, work, generation.rules), 0.0)
    assert limits == [5, 3]


def test_a_generation_must_be_started_and_its_prompt_must_move_on() -> None:
    generation = generation_of(FakeEngine())
    with pytest.raises(RuntimeError, match="started"):
        generation.next()
    generation.start(0.0)
    with pytest.raises(RuntimeError, match="row 0 to 0"):
        generation.feed(Prefilled(0, len(generation.prompt.ids)), 0.0)


@pytest.mark.parametrize(("ids", "limit", "grid"), [((), 1, 1), ((65,), 0, 1), ((65,), 1, 0)])
def test_an_impossible_generation_cannot_be_made(ids: tuple[int, ...], limit: int, grid: int) -> None:
    engine = FakeEngine()
    with pytest.raises(ValueError, match="at least"):
        Generation(
            Prompt.of_client(ids),
            SamplingRules(),
            limit=limit,
            reader=PlainReader(engine.text),
            end_ids=engine.text.end_ids,
            grid=grid,
            arrived_at=0.0,
        )


# --- ends


@pytest.mark.spec("ENG-043", "ENG-092", "API-163")
def test_the_end_token_stops_counts_and_is_not_delivered() -> None:
    deltas = run(WORDS)
    assert deltas[:-1] == [Content("one"), Content(" two"), Content(" three"), Content(" four")]
    finish = finish_of(deltas)
    assert (finish.reason, finish.usage.completion, finish.detail) == ("stop", 5, None)


@pytest.mark.spec("ENG-043", "API-163")
@pytest.mark.parametrize("block", [1, 2, 3, 5])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_the_limit_is_exact_in_any_block(limit: int, block: int) -> None:
    deltas = run({**WORDS, "block": block}, limit=limit)
    finish = finish_of(deltas)
    assert text_of(deltas) == "".join(WORDS["say"][:limit])
    assert finish.usage.completion == min(limit, 5)
    # The end token as the last token that the limit allows is a stop.
    assert finish.reason == ("length" if limit < 5 else "stop")


@pytest.mark.spec("ENG-043", "ENG-093", "API-083")
def test_a_stop_string_cuts_the_text_and_its_tokens_count() -> None:
    deltas = run({"say": ["a E", "N", "D b", "c"]}, stops=["END"])
    assert text_of(deltas) == "a "
    finish = finish_of(deltas)
    assert (finish.reason, finish.usage.completion) == ("stop", 3)


@pytest.mark.spec("ENG-043")
def test_a_stop_string_completed_by_the_last_token_is_a_stop() -> None:
    finish = finish_of(run({"say": ["a E", "N", "D b", "c"]}, stops=["END"], limit=3))
    assert (finish.reason, finish.usage.completion) == ("stop", 3)


@pytest.mark.spec("API-084")
def test_what_only_began_like_a_stop_is_released_at_the_limit() -> None:
    deltas = run({"say": ["a E", "N", "D b", "c"]}, stops=["END"], limit=2)
    assert deltas[:-1] == [Content("a "), Content("EN")]
    assert finish_of(deltas).reason == "length"


def test_tokens_behind_a_stop_in_the_same_block_count_nowhere() -> None:
    deltas = run({"say": ["a", " END", " b", " c", " d"], "block": 5}, stops=["END"])
    assert text_of(deltas) == "a "
    assert finish_of(deltas).usage.completion == 2
    assert finish_of(deltas).timings.blocks == 1


@pytest.mark.spec("ENG-096")
@given(st.integers(1, 8), st.integers(1, 12), st.lists(st.sampled_from(["a", "EN", "D", " b", "E"]), max_size=10))
def test_a_block_changes_nothing_of_the_answer(block: int, limit: int, say: list[str]) -> None:
    def answer(size: int) -> tuple[str, str, Usage]:
        deltas = run({"say": say, "block": size}, stops=["END"], limit=limit)
        finish = finish_of(deltas)
        return text_of(deltas), finish.reason, finish.usage

    assert answer(block) == answer(1)


@pytest.mark.spec("ENG-095")
def test_an_unfinished_character_is_flushed_at_the_end() -> None:
    deltas = run({"say": ["a", {"bytes": "f09f"}]})
    assert deltas[:-1] == [Content("a"), Content("\ufffd")]


@pytest.mark.spec("ENG-043", "API-163")
@pytest.mark.parametrize("reason", ["timeout", "error", "abandoned"])
def test_a_stop_at_a_safe_point_keeps_what_was_handed_out(reason: str) -> None:
    engine = FakeEngine()
    generation = generation_of(engine, {"say": ["a", " EN", " b"]}, stops=["END"])
    generation.start(0.0)
    seq = engine.open(generation.prompt)
    for _ in range(3):  # the prompt and two tokens
        work = generation.next()
        assert not isinstance(work, Ended)
        generation.feed(perform(engine, seq, work, generation.rules), 1.0)
    assert generation.take_deltas() == [Content("a"), Content(" ")]
    assert generation.finish is None
    generation.stop(reason, 2.0, "why")  # type: ignore[arg-type]
    deltas = generation.take_deltas()
    assert deltas[:-1] == [Content("EN")]
    finish = finish_of(deltas)
    assert (finish.reason, finish.detail, finish.usage.completion) == (reason, "why", 2)
    assert generation.next() == Ended()
    assert generation.finish is finish


@pytest.mark.spec("ENG-043")
def test_an_ended_generation_stays_as_it_ended() -> None:
    engine = FakeEngine()
    generation = generation_of(engine, WORDS)
    finish = finish_of(drive(engine, engine.open(generation.prompt), generation))
    generation.stop("error", 9.0, "late")
    generation.feed(Accepted((65,)), 9.0)
    assert generation.take_deltas() == []
    assert generation.finish is finish


@pytest.mark.spec("ENG-043", "API-166")
def test_an_engine_error_ends_its_own_generation_only() -> None:
    engine = FakeEngine()
    failing, other = generation_of(engine, {**WORDS, "fail_at": 2}), generation_of(engine, WORDS)
    seq = engine.open(failing.prompt)
    with pytest.raises(EngineError) as raised:
        drive(engine, seq, failing)
    failing.stop("error", 0.0, str(raised.value))
    finish = finish_of(failing.take_deltas())
    assert (finish.reason, finish.usage.completion) == ("error", 2)
    engine.close(seq)
    assert text_of(drive(engine, engine.open(other.prompt), other)) == "one two three four"


class CallReader(PlainReader):
    """Ends a call with every token."""

    reasoning_tokens = 3

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        return [CallEnd(0)]


@pytest.mark.spec("ENG-043", "API-163", "API-164")
@pytest.mark.parametrize(("limit", "reason"), [(100, "tool_calls"), (2, "length")])
def test_a_complete_call_outranks_a_stop_and_not_the_limit(limit: int, reason: str) -> None:
    engine = FakeEngine()
    plain = generation_of(engine, WORDS)
    generation = Generation(
        plain.prompt,
        SamplingRules(),
        limit=limit,
        reader=CallReader(engine.text),
        end_ids=engine.text.end_ids,
        grid=8,
        arrived_at=0.0,
    )
    finish = finish_of(drive(engine, engine.open(plain.prompt), generation))
    assert (finish.reason, finish.usage.reasoning) == (reason, 3)


def test_without_a_script_the_fixed_sentence_comes() -> None:
    deltas = run()
    assert text_of(deltas) == FIXED_SENTENCE
    assert isinstance(deltas[-1], Finish)
