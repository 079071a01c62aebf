"""Any acts at any points: what the rows call hidden is what the client has not, and the ends are ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.decoding.generation import Generation, ReasoningCap
from tandem.engine.decoding.seams import NOTHING, Close, EndNow, SafePoint, Seen, Verdict
from tandem.engine.decoding.work import Answer, Ask, Ended, Force, perform
from tandem.engine.fake.vocabulary import IM_START, THINK_END
from tandem.engine.fake.warm import WarmFakeEngine
from tandem.engine.text.reading.calls import xml_calls
from tandem.engine.text.reading.deltas import CallStart, Delta, Finish
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.text.reading.rules import ReadingRules
from tandem.engine.text.reading.trace import Trace
from tandem.engine.verbs import SamplingRules, TokenLogprob
from tests.engine.decoding.driving import prompt_of

F, G = (f"<tool_call><function={name}></function></tool_call>" for name in "fg")
TAGS = ("<tool_call>", "{no", "</tool_call>", "<function=f>", "</function>", "<think>", "</think>")
SAID = st.lists(st.sampled_from(["a", " b", "\n", "STOP", F, G, *TAGS]), max_size=8)
TAG = (10, THINK_END, 10)
TURN = (IM_START, 65, 66)
STOPPED = EndNow("bye", "x")


class Whim:
    """Acts as the dice say, wherever the monitor may."""

    def __init__(self, dice: Random, trace: Trace) -> None:
        self._dice = dice
        self._trace = trace
        self._left = 6

    def look(self, point: SafePoint, seen: Seen) -> Verdict:
        assert min(seen.room, seen.left) >= 0
        assert seen.written == len(self._trace.all_ids)
        if not self._left or self._dice.random() < 0.6:
            return NOTHING
        self._left -= 1
        give_up = Verdict(end=STOPPED)
        if point == "SP1":
            return Verdict(works=self._works(seen)) if seen.in_reasoning and self._dice.random() < 0.3 else NOTHING
        if point == "SP2":
            return NOTHING if self._trace.has_calls else self._dice.choice([Verdict(works=self._works(seen)), give_up])
        if seen.ended is not None:
            return self._dice.choice([NOTHING, give_up])
        works = self._works(seen, self._trace.since_block)
        again = Verdict(works=works, drop=any(isinstance(work, Force) for work in works))
        return again if again.drop else self._dice.choice([again, give_up, Verdict(release=tuple(seen.held))])

    def answered(self, answer: Answer, seen: Seen) -> Verdict:
        may = not seen.in_reasoning and not self._trace.has_calls and self._dice.random() < 0.4
        return Verdict(works=self._works(seen)) if may else NOTHING

    def closed(self, close: Close) -> None:
        """Nothing to be done."""

    def _works(self, seen: Seen, dropped: int = 0) -> tuple[Force | Ask, ...]:
        asks = (Ask((65,), (66, 67)),) if self._dice.random() < 0.3 else ()
        if self._dice.random() < 0.5 or seen.room <= len(TAG):
            return asks
        if seen.in_reasoning:
            return (*asks, Force(TAG, visible=False, closes=True, shown=self._dice.choice([0, 2])))
        return (*asks, Force(TURN, visible=False, dropped=dropped))


class Noting(AnswerReader):
    """Notes what it is fed."""

    ids: list[int]

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        self.ids.append(token)
        return super().feed(token, logprob)


def drive(engine: WarmFakeEngine, generation: Generation, ids: list[int]) -> Sequence[Delta]:
    """Its deltas; `ids` are those of the answer as the client has it."""
    seq = engine.open(generation.prompt)
    generation.start(0.0)
    while not isinstance(work := generation.next(), Ended):
        if isinstance(work, Force) and not work.visible:
            del ids[len(ids) - work.dropped :]
            ids += work.ids[len(work.ids) - work.shown :]
        generation.feed(perform(engine, seq, work, generation.rules), 0.0)
    engine.close(seq)
    return generation.take_deltas()


@pytest.mark.spec("ENG-111", "ENG-183", "MON-033", "MON-076", "MON-133", "MON-137")
@settings(max_examples=100)
@given(st.lists(SAID, min_size=1, max_size=5), st.integers(0, 1 << 20), st.booleans(), st.booleans(), st.booleans())
def test_whatever_is_done_the_rows_are_told_apart(
    says: list[list[str]], seed: int, holds: bool, stops: bool, single: bool
) -> None:
    dice = Random(seed)
    engine = WarmFakeEngine(grid=8, max_len=4_000)
    prompt = replace(
        prompt_of(engine, {"say": says[0], "then": says[1:], "block": dice.choice([1, 3, 8])}), session="s"
    )
    trace, window, limit = Trace(), len(prompt.ids) + dice.choice([20, 40, 120]), dice.choice([1, 2, 5, 20, 100])
    reader = Noting(
        engine.text,
        thinking=prompt.thinking,
        stops=("STOP",) if stops else (),
        stop_scope="answer",
        calls=xml_calls([], live=not holds and not stops, new_id=lambda: "c"),
        single_call=single,
        rules=ReadingRules(holds=holds, drops_closers=dice.random() < 0.5),
        trace=trace,
    )
    reader.ids = []
    generation = Generation(
        prompt,
        SamplingRules(),
        limit=limit,
        reader=reader,
        end_ids=engine.text.end_ids,
        grid=8,
        arrived_at=0.0,
        reasoning_cap=dice.choice([None, ReasoningCap(2, TAG, dice.random() < 0.5)]),
        supervisor=Whim(dice, trace),
    )
    generation.grant(prompt, window)
    deltas = drive(engine, generation, reader.ids)
    assert [isinstance(delta, Finish) for delta in deltas].index(True) == len(deltas) - 1
    assert generation.completion_tokens <= limit
    calls = [delta.index for delta in deltas if isinstance(delta, CallStart)]
    assert calls == list(range(len(calls)))
    [written] = engine.written()
    borders = [0, *(border for run in written.whose.hidden for border in run), len(written.keys)]
    assert borders == sorted(borders)
    assert len(written.keys) <= window
    seen = [each for at in range(0, len(borders), 2) for each in written.keys[borders[at] : borders[at + 1]]]
    assert seen == [*prompt.ids, *reader.ids][: len(seen)]
