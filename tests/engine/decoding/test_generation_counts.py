from __future__ import annotations

import pytest

from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.work import Prefill, perform
from tandem.engine.fake import FakeEngine
from tandem.engine.text.prompt import Prompt, Span
from tandem.engine.text.reading.deltas import Usage
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import Accepted, Prefilled, SamplingRules, Spent
from tests.engine.decoding.driving import drive, finish_of, generation_of, run, text_of

# --- usage and timings


@pytest.mark.spec("API-155", "API-156", "API-157", "API-161")
def test_usage_reads_spans() -> None:
    engine = FakeEngine()
    ids = tuple(b"abcdefghij")
    spans = (Span("client", 0, 4), Span("note", 4, 7), Span("client", 7, 10))
    generation = Generation(
        Prompt(ids, spans, 4),
        SamplingRules(),
        limit=1,
        reader=PlainReader(engine.text),
        end_ids=engine.text.end_ids,
        grid=8,
        arrived_at=0.0,
    )
    generation.start(0.0)
    generation.feed(Prefilled(8, 10, resumed=8), 0.0)
    generation.feed(Prefilled(10, 10, resumed=8), 0.0)
    generation.feed(Accepted((65,)), 0.0)
    finish = finish_of(generation.take_deltas())
    assert finish.usage == Usage(prompt=7, cached=5, completion=1, hidden=3, engine_cached=8, engine_prompt=2)
    assert finish.timings.cache_source == "prefix"


@pytest.mark.spec("API-160", "API-161")
def test_timings_are_taken_between_safe_points() -> None:
    engine = FakeEngine()
    generation = generation_of(engine, {"say": "a b c", "token_ms": 10, "prefill_ms_per_token": 1, "block": 2})
    rows = len(generation.prompt.ids)
    deltas = drive(engine, engine.open(generation.prompt), generation, now=3.0)
    timings = finish_of(deltas).timings
    assert timings.queue_ms == pytest.approx(3000)
    assert timings.prompt_ms == pytest.approx(rows + 20)
    assert timings.predicted_ms == pytest.approx(20)
    assert timings.total_ms == pytest.approx(3000 + rows + 40)
    assert (timings.blocks, timings.drafted, timings.draft_accepted) == (2, 2, 2)
    assert timings.cache_source == "none"


@pytest.mark.spec("API-161")
def test_one_that_never_ran_was_queued_to_its_end() -> None:
    generation = generation_of(FakeEngine())
    generation.stop("timeout", 5.0)
    timings = finish_of(generation.take_deltas()).timings
    assert (timings.queue_ms, timings.prompt_ms, timings.predicted_ms, timings.total_ms) == (5000, 0, 0, 5000)


def test_one_stopped_in_its_prefill_spent_the_time_reading() -> None:
    generation = generation_of(FakeEngine(grid=4))
    generation.start(1.0)
    generation.feed(Prefilled(4, len(generation.prompt.ids)), 2.0)
    generation.stop("abandoned", 3.0)
    finish = finish_of(generation.take_deltas())
    assert (finish.timings.queue_ms, finish.timings.prompt_ms, finish.usage.engine_prompt) == (1000, 2000, 4)


@pytest.mark.spec("ENG-045")
def test_what_the_rounds_spent_adds_up() -> None:
    generation = generation_of(FakeEngine(), limit=2)
    generation.start(0.0)
    generation.feed(Prefilled(len(generation.prompt.ids), len(generation.prompt.ids)), 0.0)
    for token in (97, 98):
        generation.feed(Accepted((token,), spent=Spent(1.0, 2.0, 3.0)), 1.0)
    assert finish_of(generation.take_deltas()).timings.spent == Spent(2.0, 4.0, 6.0)


# --- choices


@pytest.mark.spec("ENG-083")
def test_choices_share_one_prefill_and_the_first_is_the_single_answer() -> None:
    script = {"say": [" a", " b", " c", " d"]}
    rules = SamplingRules(temperature=20.0, top_k=3, seed=5, logit_bias={97: 60.0, 98: 60.0})
    engine = FakeEngine(grid=8)
    first = generation_of(engine, script, rules, limit=6)
    others = [first.for_choice(index, PlainReader(engine.text)) for index in (1, 2, 3)]
    seq = engine.open(first.prompt)
    first.start(0.0)
    while isinstance(work := first.next(), Prefill):
        first.feed(perform(engine, seq, work, first.rules), 0.0)
    snapshot = engine.snapshot(seq)
    answers = [drive(engine, seq, first)]
    for other in others:
        engine.restore(seq, snapshot)
        other.skip_prefill(first.prefilled, 1.0)
        answers.append(drive(engine, seq, other))
    assert sum(call.args["rows"] for call in engine.calls if call.verb == "prefill") == len(first.prompt.ids)
    assert [generation.choice for generation in (first, *others)] == [0, 1, 2, 3]
    assert text_of(answers[0]) == text_of(run(script, rules, limit=6))
    assert len({text_of(answer) for answer in answers}) > 1
    assert {finish_of(answer).usage.prompt for answer in answers} == {len(first.prompt.ids)}


def test_a_prefill_can_be_skipped_only_when_all_of_it_is_read() -> None:
    generation = generation_of(FakeEngine())
    with pytest.raises(ValueError, match="read them all first"):
        generation.skip_prefill(Prefilled(1, len(generation.prompt.ids)), 0.0)
