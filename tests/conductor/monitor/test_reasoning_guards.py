"""D1, D1b and D2: when a thought has gone on long enough."""

from __future__ import annotations

import random

import pytest

from bench.monitor.loops import drifting_paragraphs
from bench.monitor.outputs import WORDS, sentence
from tandem.conductor.monitor.novelty import sequence_hashes
from tandem.conductor.monitor.state import Monitored
from tests.conductor.monitor.guarding import answering, cut, first, ids_of, thinking

RNG = random.Random(3)
PROSE = cut("\n\n".join(" ".join(sentence(RNG, 11) for _ in range(4)) for _ in range(60)))


@pytest.mark.spec("MON-045", "MON-046", "MON-050")
def test_a_repeated_word_is_closed_at_the_second_check() -> None:
    """H-01, inside the reasoning."""
    found = first(thinking, PROSE[:600] + [" items"] * 900)
    assert found is not None
    tokens, action = found
    # 256 copies are there at token 856; the checks that see them are those at 896 and 960.
    assert (tokens, action.kind, action.reason, action.text) == (960, "CLOSE_REASONING", "loop(period)", None)
    assert action.detail == {"arm": "period", "copies": 256.0, "reasoning_tokens": 960, "position": 7}


@pytest.mark.spec("MON-046")
def test_a_short_repetition_is_tolerated() -> None:
    assert first(thinking, PROSE[:600] + [" items"] * 60 + PROSE[600:1_200]) is None
    assert first(thinking, PROSE[:600] + [" |", " -"] * 140 + PROSE[600:1_200]) is None, "seen at one check only"
    assert thinking([" items"] * 511) is None
    assert thinking([" items"] * 576) is not None


@pytest.mark.spec("MON-046")
def test_hardly_anything_new() -> None:
    unit = cut("".join(f"  {word} = f({word}, {at})\n" for at, word in enumerate(WORDS[:25])))
    found = first(thinking, [*PROSE[200:700], *unit * 12])
    assert found is not None
    assert found[1].reason == "loop(novelty)"
    assert found[1].detail["share"] < 0.1
    assert first(thinking, [*PROSE[:1_000], *PROSE[:1_000]]) is None, "a second draft"


def test_one_thought_in_other_words() -> None:
    """H-02: twelve paragraphs of which each has four fifths of the trigrams of the one before."""
    for _ in range(4):
        head, units = drifting_paragraphs(RNG)
        found = first(thinking, cut(head + "".join(units[:12])))
        assert found is not None
        assert found[1].reason == "loop(drift)"
        assert first(thinking, cut(head + "".join(units[:5]))) is None


@pytest.mark.spec("MON-047", "MON-050")
def test_a_plan_that_is_derived_again_is_closed() -> None:
    plan, other = PROSE[:2_400], list(reversed(PROSE))[:2_400]
    known = Monitored(reasoning=sequence_hashes(ids_of(plan)))
    found = first(lambda pieces: thinking(pieces, task="D1b", session=known), plan)
    assert found is not None
    tokens, action = found
    assert (tokens, action.kind, action.reason, action.score) == (2_048, "CLOSE_REASONING", "loop(history)", 1.0)
    assert thinking(other, task="D1b", session=known) is None
    assert thinking(plan, task="D1b") is None
    half = [piece for at in range(0, 2_400, 100) for piece in (*plan[at : at + 50], *other[at : at + 50])]
    assert thinking(half, task="D1b", session=known) is None
    user = ({"role": "user", "content": "And now?"},)
    assert thinking(plan, task="D1b", session=known, messages=user) is None, "a new message begins anew"


def test_what_is_kept_of_a_reasoning_is_an_eighth_of_it() -> None:
    kept = sequence_hashes(ids_of(PROSE))
    assert len(PROSE) / 16 < len(kept) < len(PROSE) / 4


@pytest.mark.spec("MON-048")
def test_the_backstop_tells_its_cap() -> None:
    action = thinking(["a"] * 32_768, task="D2")
    assert action is not None
    assert (action.kind, action.reason) == ("CLOSE_REASONING", "backstop(32768)")
    assert thinking(["a"] * 32_767, task="D2") is None


@pytest.mark.spec("MON-049")
@pytest.mark.parametrize("task", ["D1", "D1b", "D2"])
def test_the_answer_is_read_by_none_of_them(task: str) -> None:
    loop = [" items"] * 32_768
    known = Monitored(reasoning=sequence_hashes(ids_of(loop)))
    assert answering(loop, task=task, session=known) is None
    assert answering(loop) is not None, "it is D3's"
    assert thinking(loop, task="D3") is None
