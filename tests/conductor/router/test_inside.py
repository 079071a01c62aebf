"""A question inside the conversation leaves no trace in the turn that its answer shapes (RTR-019 to RTR-021)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tandem.conductor.router.questions import within
from tandem.engine.decoding.asking import ask_in_prompt
from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.seams import NOTHING, Close, SafePoint, Seen, Verdict
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Answer, Ask, Ended, Prefill, perform
from tandem.engine.load import load_engine
from tandem.engine.text.asking import asking_prompt
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.text.splicing import Piece, splice
from tandem.engine.tiny.kinds import make_tiny
from tandem.engine.verbs import SamplingRules
from tests.conductor.router.test_questions import question
from tests.engine.decoding.engines import kept_row, state_of, trace

GRID = 64
TURNS = ["Write it. " * 12, "Here it is. " * 9, "Now make it shorter, and explain why. " * 5]


class Heard:
    """A supervisor that takes an answer and inserts nothing."""

    def __init__(self) -> None:
        self.answer: Answer | None = None

    def look(self, point: SafePoint, seen: Seen) -> Verdict:
        return NOTHING

    def answered(self, answer: Answer, seen: Seen) -> Verdict:
        self.answer = answer
        return NOTHING

    def closed(self, close: Close) -> None:
        """There is no cap."""


@pytest.fixture(scope="module", params=["llama", "qwen3_5"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(request.param, tmp_path_factory.mktemp("tiny") / "model", seed=3)


def engine_of(checkpoint: Path) -> TorchEngine:
    return load_engine(checkpoint, max_len=2_048, grid=GRID, cpu_weights="fp32")


def turn(engine: TorchEngine, *texts: str, note: str = "") -> Prompt:
    """A user turn; its note stands right before the last turn's end (NOTE-001)."""
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    prompt = engine.text.render(Conversation(messages=messages))
    last = max(at for at, token in enumerate(prompt.ids) if token in engine.text.turn_ends)
    return splice(prompt, [Piece(last, "note", tuple(engine.text.encode(note)))])


def asked(engine: TorchEngine, prompt: Prompt) -> int:
    """Ask inside the prompt; the row up to which its own rows are read."""
    inside = within(question(), prompt, engine.text)
    assert inside is not None
    shares = ask_in_prompt(engine, prompt, inside.parting, inside.ids, inside.options)
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(1.0)
    return inside.parting


@pytest.mark.spec("RTR-019", "RTR-020")
def test_the_turn_with_its_note_is_bit_for_bit_the_turn_without_the_question(checkpoint: Path) -> None:
    one, other = engine_of(checkpoint), engine_of(checkpoint)
    for engine in (one, other):  # an earlier turn is resident, as in a conversation
        first = turn(engine, TURNS[0], note=" Think briefly.")
        seq = engine.open(first)
        while engine.prefill(seq, len(first.ids)).done < len(first.ids):
            pass
        engine.close(seq)
    plain = turn(one, *TURNS)
    noted = turn(one, *TURNS, note=" Think as far as the task needs.")
    parting = asked(one, plain)
    sequences = []
    for engine in (one, other):
        seq = engine.open(noted)
        while engine.prefill(seq, len(noted.ids)).done < len(noted.ids):
            pass
        sequences.append(seq)
    after, fresh = sequences
    last = max(at for at, token in enumerate(plain.ids) if token in one.text.turn_ends)
    assert after.resumed >= last // GRID * GRID > fresh.resumed, "at most one chunk, the note and the tail are read"
    assert parting > last
    assert torch.equal(kept_row(one, after), kept_row(other, fresh))
    assert torch.equal(state_of(one, after), state_of(other, fresh))
    assert {anchor for anchor in fresh.anchors.all if anchor.row > fresh.resumed} <= set(after.anchors.all)
    (ids, rows), (own, own_rows) = trace(one, after), trace(other, fresh)
    assert ids == own
    assert all(torch.equal(row, own_row) for row, own_row in zip(rows, own_rows, strict=True))


@pytest.mark.spec("RTR-020")
def test_behind_an_answer_the_turn_goes_on_as_if_nothing_had_been_asked(checkpoint: Path) -> None:
    one, other = engine_of(checkpoint), engine_of(checkpoint)
    first = turn(one, TURNS[0], note=" Think briefly.")
    answers = []
    for engine in (one, other):
        seq = engine.open(first)
        while engine.prefill(seq, len(first.ids)).done < len(first.ids):
            pass
        answers.append(trace(engine, seq, 9)[0])
        engine.close(seq)
    assert answers[0] == answers[1]
    after = turn(one, "And now?").ids
    ends = [at for at, token in enumerate(after) if token in one.text.turn_ends]
    # The replayed note and the answer as they were read and written, the turn's end, and the next message (NOTE-002).
    between = after[ends[0] : after.index(after[0], ends[0])]
    plain = Prompt.of_client([*first.ids, *answers[0], *between, *after])
    parting = asked(one, plain)
    sequences = []
    for engine in (one, other):
        seq = engine.open(plain)
        while engine.prefill(seq, len(plain.ids)).done < len(plain.ids):
            pass
        sequences.append(seq)
    resumed, fresh = sequences
    assert fresh.resumed == len(first.ids) + len(answers[0]) - 1, "where the answer ended, but for its newest token"
    assert fresh.resumed <= resumed.resumed <= parting
    assert torch.equal(kept_row(one, resumed), kept_row(other, fresh))
    assert torch.equal(state_of(one, resumed), state_of(other, fresh))
    assert trace(one, resumed)[0] == trace(other, fresh)[0]


@pytest.mark.spec("RTR-019", "ENG-041")
def test_work_by_work_the_question_has_the_same_answer(checkpoint: Path) -> None:
    """As a slot would do it: chunk after chunk, with a safe point between them."""
    engine = engine_of(checkpoint)
    prompt = turn(engine, *TURNS)
    inside = within(question(), prompt, engine.text)
    assert inside is not None
    shares = ask_in_prompt(engine, prompt, inside.parting, inside.ids, inside.options)
    engine.clear()
    asking, heard = asking_prompt(prompt, inside.parting, inside.ids), Heard()
    generation = Generation(
        asking,
        SamplingRules(),
        limit=1,
        reader=PlainReader(engine.text),
        end_ids=engine.text.end_ids,
        grid=GRID,
        arrived_at=0.0,
        supervisor=heard,
    )
    generation.ask((), inside.options)
    generation.start(0.0)
    seq = engine.open(asking)
    works = []
    while heard.answer is None:
        works.append(work := generation.next())
        assert not isinstance(work, Ended)
        generation.feed(perform(engine, seq, work, generation.rules), 0.0)
    engine.close(seq)
    assert heard.answer.probabilities == shares
    assert [type(work) for work in works] == [Prefill] * -(-len(asking.ids) // GRID) + [Ask]
