from __future__ import annotations

from collections.abc import Sequence

import pytest

from tandem.engine.decoding.seams import Close, SafePoint, Seen, Verdict
from tandem.engine.decoding.work import Answer, Ask, Force, Forced, Prefill, Round
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.vocabulary import IM_START
from tandem.engine.verbs import Prefilled, SamplingRules
from tests.engine.decoding.driving import chat_of, drive, finish_of, generation_of, run, text_of

WORDS = {"say": ["one", " two", " three", " four"]}


def ids_of(engine: FakeEngine, text: str) -> tuple[int, ...]:
    return tuple(engine.text.encode(text))


# --- force, ask, mask, supervisor


@pytest.mark.spec("ENG-040")
def test_forced_ids_are_read_when_visible_and_count() -> None:
    engine = FakeEngine()
    generation = generation_of(engine, WORDS)
    generation.force(ids_of(engine, " now then"), visible=True)
    deltas = drive(engine, engine.open(generation.prompt), generation)
    assert text_of(deltas) == " now thenone two three four"
    assert finish_of(deltas).usage.completion == 7


@pytest.mark.spec("ENG-040")
def test_hidden_ids_reach_neither_client_nor_count() -> None:
    engine = FakeEngine()
    generation = generation_of(engine, WORDS)
    seq = engine.open(generation.prompt)
    hidden = ids_of(engine, " hidden words")
    generation.force(hidden, visible=False)
    deltas = drive(engine, seq, generation)
    assert text_of(deltas) == "one two three four"
    assert finish_of(deltas).usage.completion == 5
    assert tuple(seq.output[:2]) == hidden


@pytest.mark.spec("ENG-040")
def test_inserted_work_is_done_in_order_before_the_next_round() -> None:
    generation = generation_of(FakeEngine(grid=1024))
    generation.force([65, 66], visible=True)
    generation.ask([67], [68, 69])
    generation.force([], visible=True)
    generation.start(0.0)
    rows = len(generation.prompt.ids)
    assert generation.next() == Prefill(rows)
    generation.feed(Prefilled(rows, rows), 0.0)
    assert generation.next() == Force((65, 66), visible=True)
    assert generation.next() == Force((65, 66), visible=True)
    generation.feed(Forced((65, 66)), 0.0)
    assert generation.next() == Ask((67,), (68, 69))
    generation.feed(Answer((0.5, 0.5)), 0.0)
    assert generation.next() == Round(98)


@pytest.mark.spec("ENG-040")
def test_a_visible_force_ends_at_the_limit() -> None:
    engine = FakeEngine()
    generation = generation_of(engine, WORDS, limit=2)
    generation.force(ids_of(engine, "a b c"), visible=True)
    deltas = drive(engine, engine.open(generation.prompt), generation)
    assert text_of(deltas) == "a b"
    assert (finish_of(deltas).reason, finish_of(deltas).usage.completion) == ("length", 2)


@pytest.mark.spec("ENG-041")
def test_a_question_leaves_no_trace() -> None:
    engine = FakeEngine()
    asking, plain = generation_of(engine, WORDS), generation_of(engine, WORDS)
    asking.ask(ids_of(engine, "really ?"), [65, 66])
    asked, unasked = (drive(engine, engine.open(one.prompt), one) for one in (asking, plain))
    assert asked == unasked


class RecordingMask:
    """Allows everything; `follows` says what must come behind a token."""

    def __init__(self, follows: dict[int, tuple[int, ...]] | None = None) -> None:
        self.committed: list[int] = []
        self.follows = follows or {}

    def allows(self, path: Sequence[int], token: int) -> bool:
        return True

    def bits(self, path: Sequence[int], best: int) -> bytes | None:
        return None

    def commit(self, ids: Sequence[int]) -> None:
        self.committed += ids

    def forced(self) -> tuple[int, ...]:
        return self.follows.get(self.committed[-1], ()) if self.committed else ()


@pytest.mark.spec("ENG-183")
@pytest.mark.parametrize("block", [1, 2, 5])
@pytest.mark.parametrize(("limit", "read"), [(100, 4), (3, 3)])
def test_a_mask_moves_on_once_a_token(block: int, limit: int, read: int) -> None:
    mask = RecordingMask()
    run({**WORDS, "block": block}, SamplingRules(mask=mask), limit=limit)
    assert len(mask.committed) == read


@pytest.mark.spec("ENG-040", "ENG-183")
@pytest.mark.parametrize("limit", [3, 4, 5, 100])
def test_what_the_mask_makes_certain_is_forced_read_and_committed(limit: int) -> None:
    engine = FakeEngine()
    words = ["one", " two", " x", " y", " z", " three", " four"]
    ids = [token for word in words for token in ids_of(engine, word)]
    mask = RecordingMask({ids[1]: tuple(ids[2:5])})
    generation = generation_of(engine, WORDS, SamplingRules(mask=mask), limit=limit)
    deltas = drive(engine, engine.open(generation.prompt), generation)
    assert text_of(deltas) == "".join(words[:limit])
    assert mask.committed == ids[:limit]
    assert finish_of(deltas).usage.completion == min(limit, 8)
    assert finish_of(deltas).timings.blocks == (5 if limit == 100 else 2)


def test_what_is_certain_is_sampled_where_log_probabilities_are_asked_or_in_the_reasoning() -> None:
    engine = FakeEngine()
    (two,) = ids_of(engine, " two")
    for rules, script in (
        (SamplingRules(mask=RecordingMask({two: (65,)}), logprobs=0), WORDS),
        (SamplingRules(mask=RecordingMask({two: (65,)})), {"say": "<think>one two three</think>four"}),
    ):
        generation = chat_of(engine, script, rules)
        drive(engine, engine.open(generation.prompt), generation)
    assert "force" not in {call.verb for call in engine.calls}


class ScriptedSupervisor:
    """Answers each safe point from a table, once."""

    def __init__(self, acts: dict[SafePoint, list[Force | Ask]]) -> None:
        self.acts = acts
        self.points: list[SafePoint] = []
        self.answers: list[tuple[float, ...]] = []

    def look(self, point: SafePoint, seen: Seen) -> Verdict:
        self.points.append(point)
        return Verdict(works=tuple(self.acts.pop(point, [])))

    def answered(self, answer: Answer, seen: Seen) -> Verdict:
        self.answers.append(answer.probabilities)
        return Verdict(works=(Force((33,), visible=True),))

    def closed(self, close: Close) -> None:
        raise AssertionError("there is no cap")


@pytest.mark.spec("ENG-183")
def test_a_supervisor_is_asked_between_works_and_its_actions_become_works() -> None:
    engine = FakeEngine()
    supervisor = ScriptedSupervisor({"SP1": [Ask((65,), (66, 67))]})
    generation = generation_of(engine, {"say": "a b"}, supervisor=supervisor)
    deltas = drive(engine, engine.open(generation.prompt), generation)
    assert supervisor.points == ["SP1", "SP1", "SP2"]
    assert supervisor.answers == [(0.5, 0.5)]
    assert text_of(deltas) == "a! b"


@pytest.mark.spec("ENG-183")
def test_an_act_on_the_end_token_has_the_generation_go_on() -> None:
    engine = FakeEngine()
    hidden = (IM_START, *ids_of(engine, "user\nGo on.\n"))
    supervisor = ScriptedSupervisor({"SP2": [Force(hidden, visible=False)]})
    generation = generation_of(engine, {"say": "a", "then": [" b"]}, supervisor=supervisor)
    deltas = drive(engine, engine.open(generation.prompt), generation)
    assert text_of(deltas) == "a b"
    assert (finish_of(deltas).reason, finish_of(deltas).usage.completion) == ("stop", 3)
    assert supervisor.points == ["SP1", "SP2", "SP1", "SP2"]
