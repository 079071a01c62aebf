"""An end inside the tokens of one round: the engine keeps what was delivered and the stop's own (ENG-094)."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.work import Ended, Round, Trim, Trimmed, perform
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import Accepted, Prefilled, SamplingRules
from tests.engine.decoding.drafters import Scripted, oracle
from tests.engine.decoding.driving import chat_of, drive, finish_of, generation_of, reasoning_of, text_of
from tests.engine.decoding.engines import PROMPT, read, rounds, tiny_engine


def run(script: dict[str, Any], **options: Any) -> tuple[FakeEngine, FakeSeq, list[Any]]:
    engine = FakeEngine()
    generation = generation_of(engine, script, **options)
    seq = engine.open(generation.prompt)
    return engine, seq, drive(engine, seq, generation)


@pytest.mark.spec("ENG-094", "ENG-059")
def test_a_stop_string_inside_a_block_trims_what_is_behind_it() -> None:
    engine, seq, deltas = run({"say": ["a", "b", "STOP", "c", "d", "e"], "block": 6}, stops=["STOP"])
    assert text_of(deltas) == "ab"
    assert [engine.text.piece(token) for token in seq.output] == [b"a", b"b", b"STOP"]
    finish = finish_of(deltas)
    assert (finish.reason, finish.usage.completion) == ("stop", 3)
    assert (finish.timings.drafted, finish.timings.draft_accepted) == (5, 3)
    assert [call.args["count"] for call in engine.calls if call.verb == "trim"] == [3]
    assert (engine.state()["committed_tokens"], engine.state()["accepted_tokens"]) == (3, 3)


@pytest.mark.spec("ENG-094")
def test_an_end_at_the_blocks_last_token_trims_nothing() -> None:
    engine, _, deltas = run({"say": ["a", "b", "STOP", "c"], "block": 3}, stops=["STOP"])
    assert text_of(deltas) == "ab"
    assert (finish_of(deltas).timings.draft_accepted, finish_of(deltas).timings.drafted) == (2, 2)
    assert not any(call.verb == "trim" for call in engine.calls)


@pytest.mark.spec("ENG-094")
def test_an_engine_that_goes_on_behind_an_end_id_or_the_limit_is_trimmed() -> None:
    engine = FakeEngine()
    [end, *_] = engine.text.end_ids
    for ids, kept, completion in (((97, end, 98, 99), 2, 2), ((97, 98, 99, 97, 98, 99), 4, 4)):
        generation = generation_of(engine, limit=4)
        rows = len(generation.prompt.ids)
        generation.start(0.0)
        generation.feed(Prefilled(rows, rows), 0.0)
        generation.feed(Accepted(ids, drafted=len(ids) - 1, draft_accepted=len(ids) - 1), 0.0)
        finish = finish_of(generation.take_deltas())
        assert (finish.usage.completion, finish.timings.draft_accepted) == (completion, kept)
        assert generation.next() == Trim(kept)
        generation.feed(Trimmed(), 1.0)
        assert generation.next() == Ended()


@pytest.mark.spec("ENG-094")
def test_a_trim_that_failed_or_is_too_late_is_not_tried_again() -> None:
    generation = generation_of(FakeEngine(), limit=1)
    rows = len(generation.prompt.ids)
    generation.start(0.0)
    generation.feed(Prefilled(rows, rows), 0.0)
    generation.feed(Accepted((97, 98)), 0.0)
    assert generation.next() == Trim(1)
    generation.stop("error", 1.0)
    assert generation.next() == Ended()
    assert finish_of(generation.take_deltas()).reason == "length"


@pytest.mark.spec("ENG-097", "ENG-070")
@pytest.mark.parametrize("block", [1, 3, 8])
def test_a_cap_inside_a_block_is_a_rounds_limit(block: int) -> None:
    engine = FakeEngine()
    generation = chat_of(engine, {"say": "<think>a b c d e</think>f", "block": block}, cap=4)
    seq = engine.open(generation.prompt)
    deltas = drive(engine, seq, generation)
    assert text_of(deltas).strip().endswith("f")
    assert reasoning_of(deltas).startswith("a b c")
    assert "d" not in reasoning_of(deltas)
    assert not any(call.verb == "trim" for call in engine.calls)


@pytest.mark.spec("ENG-094")
@pytest.mark.usefixtures("kind")
def test_the_end_state_of_a_real_engine_holds_what_was_kept() -> None:
    plain = tiny_engine()
    wanted = rounds(plain, read(plain, PROMPT), 12)
    engine = tiny_engine(drafter=Scripted(oracle(wanted, len(PROMPT))))
    seq = read(engine, PROMPT)
    accepted = perform(engine, seq, Round(9), SamplingRules())
    assert isinstance(accepted, Accepted)
    assert len(accepted.ids) == 9
    perform(engine, seq, Trim(4), SamplingRules())
    assert list(seq.history.ids) == [*PROMPT, *wanted[:4]]
    assert seq.length == len(PROMPT) + 3
    engine.close(seq)
    assert read(engine, [*PROMPT, *wanted[:4], 1]).resumed == len(PROMPT) + 3


def test_rules_are_completed_with_choice_and_end_ids() -> None:
    engine = FakeEngine()
    generation = Generation(
        Prompt.of_client((1, 2)),
        SamplingRules(),
        limit=1,
        reader=PlainReader(engine.text),
        end_ids={5, 6},
        grid=8,
        arrived_at=0.0,
        choice=2,
    )
    assert generation.rules == SamplingRules(choice=2, end_ids=frozenset({5, 6}))
    assert generation.for_choice(3, PlainReader(engine.text)).rules.end_ids == {5, 6}
