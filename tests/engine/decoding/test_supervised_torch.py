"""Acts at the end of an answer, on real engines: what follows is what a plain run of the same ids writes, whatever kind
of round had the end token in it (MON-064, MON-072, MON-073).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.seams import NOTHING, Verdict
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Ask, Ended, Force, perform
from tandem.engine.fake import FakeText
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import Delta
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import EMPTY_TREE, SamplingRules, TokenLogprob
from tests.engine.decoding.drafters import Propose, Scripted, half_right, oracle, random_trees
from tests.engine.decoding.engines import GRID, PROMPT, ids_of, read, rounds, tiny_engine
from tests.engine.decoding.supervised import Table

pytestmark = pytest.mark.usefixtures("kind")

HIDDEN = tuple(ids_of(9, 5))
QUESTION = Ask(tuple(ids_of(6, 4)), (3, 9, 11))
DRAFTS: dict[str, Callable[[list[int]], Propose]] = {
    "plain step": lambda text: lambda ids, nodes, depth: EMPTY_TREE,
    "partial accept": lambda text: half_right(text, len(PROMPT)),
    "full accept": lambda text: oracle(text, len(PROMPT)),
    "tree": lambda text: random_trees(text, len(PROMPT)),
}
"""What a round of the drafter is at the end token."""


class Noting(PlainReader):
    """Hands nothing out, and notes what it was fed."""

    def __init__(self) -> None:
        super().__init__(FakeText())
        self.ids: list[int] = []

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        self.ids.append(token)
        return []


def answer(engine: TorchEngine, table: Table | None, end: int, limit: int) -> tuple[list[int], list[int], int]:
    """What was read, what the engine has behind the prompt, and the output's count."""
    reader = Noting()
    generation = Generation(
        Prompt.of_client(PROMPT),
        SamplingRules(),
        limit=limit,
        reader=reader,
        end_ids={end},
        grid=GRID,
        arrived_at=0.0,
        supervisor=table,
    )
    seq = engine.open(generation.prompt)
    generation.start(0.0)
    while not isinstance(work := generation.next(), Ended):
        generation.feed(perform(engine, seq, work, generation.rules), 0.0)
    written = list(seq.history.ids[len(PROMPT) :])
    engine.close(seq)
    return reader.ids, written, generation.completion_tokens


def plain(count: int, hidden: Sequence[int] = (), more: int = 0) -> list[int]:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    first = rounds(engine, seq, count)
    engine.force(seq, hidden)
    return first + rounds(engine, seq, more)


@pytest.mark.spec("MON-029", "MON-064", "MON-072", "MON-073", "ENG-040", "ENG-041", "ENG-065", "ENG-094")
@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_what_follows_an_act_at_the_end_is_a_plain_runs(draft: Callable[[list[int]], Propose]) -> None:
    text = plain(14)
    at = next(at for at in range(5, 14) if text[at] not in text[:at])
    wanted = plain(at, HIDDEN, 6)
    asked, forced = Verdict(works=(QUESTION,)), Verdict(works=(Force(HIDDEN, visible=False),))
    shares = []
    for table in (Table(SP2=[forced]), Table([forced], SP2=[asked])):
        engine = tiny_engine(drafter=Scripted(draft(text)))
        seen, written, count = answer(engine, table, text[at], at + 6)
        ends = wanted.index(text[at], at) if text[at] in wanted[at:] else len(wanted)
        assert seen == wanted[:ends]
        assert written[: at + len(HIDDEN)] == [*wanted[:at], *HIDDEN]
        assert count == min(ends + 1, at + 6)
        shares += table.answers
    reference = tiny_engine()
    seq = read(reference, PROMPT)
    rounds(reference, seq, at)
    assert shares == [pytest.approx(reference.ask(seq, QUESTION.ids, QUESTION.options), abs=1e-5)]


@pytest.mark.spec("MON-028", "MON-072", "ENG-065")
@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_who_lets_the_end_come_leaves_what_nobody_had_touched(draft: Callable[[list[int]], Propose]) -> None:
    text = plain(14)
    at = next(at for at in range(5, 14) if text[at] not in text[:at])
    unwatched = answer(tiny_engine(drafter=Scripted(draft(text))), None, text[at], 20)
    assert answer(tiny_engine(drafter=Scripted(draft(text))), Table(), text[at], 20) == unwatched
    asked = Table([NOTHING], SP2=[Verdict(works=(QUESTION,))])
    seen, written, count = answer(tiny_engine(drafter=Scripted(draft(text))), asked, text[at], 20)
    assert (seen, count) == (unwatched[0], unwatched[2])
    assert written == unwatched[1][:-1], "all but the end token, which has no row either way"
