from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from tandem.engine.errors import NumericalError
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.vocabulary import END_OF_TEXT, IM_END, VOCAB_SIZE
from tandem.engine.verbs import SamplingRules
from tests.engine.fake.running import ids, one_round, opened, text


class Allowing:
    """A mask that allows the same ids everywhere."""

    def __init__(self, *allowed: int) -> None:
        bits = sum(1 << token for token in allowed)
        self._bits = bits.to_bytes((VOCAB_SIZE + 7) // 8, "little")

    def allows(self, path: Sequence[int], token: int) -> bool:
        return bool(self._bits[token // 8] >> token % 8 & 1)

    def bits(self, path: Sequence[int], best: int) -> bytes | None:
        return self._bits

    def commit(self, ids: Sequence[int]) -> None:
        raise AssertionError("the engine reads a mask and leaves it alone")

    def forced(self) -> tuple[int, ...]:
        return ()


@pytest.mark.spec("ENG-188")
@pytest.mark.parametrize(
    ("allowed", "taken"),
    [
        ((ord("x"), ord("a"), IM_END), ord("a")),
        ((ord("x"), ord("}"), IM_END), IM_END),
        ((ord("x"), ord("}"), END_OF_TEXT), END_OF_TEXT),
        ((5, ord("0"), ord('"'), ord("]"), ord("}")), ord("}")),
        ((5, ord("0"), ord('"'), ord("]")), ord("]")),
        ((5, ord("0"), ord('"')), ord('"')),
        ((5, ord("0")), ord("0")),
        ((7, 5, 9), 5),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_masked_token_gives_way(allowed: tuple[int, ...], taken: int, temperature: float) -> None:
    engine = FakeEngine()
    rules = SamplingRules(mask=Allowing(*allowed), temperature=temperature)
    assert ids(engine, {"say": "a"}, rules, count=1) == [taken]


def test_after_a_token_gave_way_the_script_is_one_on() -> None:
    engine = FakeEngine()
    rules = SamplingRules(mask=Allowing(ord("a"), ord("c"), ord("}"), IM_END - 1))
    seq = opened(engine, {"say": ["a", "b", "c"], "block": 3})
    first = one_round(engine, seq, rules)
    assert text(engine, first.ids) == "a}"
    assert (first.drafted, first.draft_accepted) == (1, 1), "what the mask forbids is not verified"
    assert text(engine, one_round(engine, seq, rules).ids[:1]) == "c"


def test_a_mask_that_allows_nothing_ends_the_request() -> None:
    engine = FakeEngine()
    seq = opened(engine, {"say": "a"})
    with pytest.raises(NumericalError) as raised:
        one_round(engine, seq, SamplingRules(mask=Allowing()))
    assert raised.value.position == len(seq.prompt.ids) - 1


class Spelling(Allowing):
    """Bits of bytes alone, and every word that has no `x`: as a grammar's over the open vocabulary."""

    def __init__(self, engine: FakeEngine, *allowed: int) -> None:
        super().__init__(*allowed)
        self._piece = engine.text.piece
        self.best: list[int] = []

    def allows(self, path: Sequence[int], token: int) -> bool:
        return super().allows(path, token) or (IM_END > token > 255 and b"x" not in self._piece(token))

    def bits(self, path: Sequence[int], best: int) -> bytes | None:
        self.best.append(best)
        return super().bits(path, best)


@pytest.mark.spec("ENG-188")
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_scripted_word_is_asked_for_and_not_looked_up(temperature: float) -> None:
    engine = FakeEngine()
    mask = Spelling(engine, ord("0"))
    seq = opened(engine, {"say": ["word", "taxi", "more"], "block": 3})
    first = one_round(engine, seq, SamplingRules(mask=mask, temperature=temperature))
    assert text(engine, first.ids) == "word0"
    assert [text(engine, (best,)) for best in mask.best] == ["word", "taxi"]


@pytest.mark.spec("ENG-091")
def test_the_mask_is_told_what_penalties_and_bias_make_of_the_row() -> None:
    engine = FakeEngine()
    [word] = engine.text.vocabulary.ids(b"word")
    mask = Spelling(engine, ord("0"), IM_END)
    biases: list[dict[int, float]] = [{}, {word: -40.0}, {98: 61.0}]
    for bias in biases:
        one_round(engine, opened(engine, {"say": "word"}), SamplingRules(mask=mask, logit_bias=bias))
    assert mask.best == [word, IM_END, 98]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (SamplingRules(logit_bias={97: -100.0}), [IM_END]),
        (SamplingRules(logit_bias={97: -100.0, IM_END: -100.0}), [0]),
        (SamplingRules(logit_bias={98: 61.0}), [98]),
        (SamplingRules(logit_bias={98: 60.0}), [97]),
        (SamplingRules(logit_bias={96: 60.0}), [96]),
        # "a" stands in the prompt: 60 / 3 < 30, and the end token's 30 / 3 < 20.
        (SamplingRules(repetition_penalty=3.0), [97]),
        (SamplingRules(repetition_penalty=3.0, logit_bias={98: 21.0}), [98]),
    ],
)
def test_bias_and_repetition_penalty_act_on_the_row(rules: SamplingRules, expected: list[int]) -> None:
    assert ids(FakeEngine(), {"say": "a"}, rules, count=1) == expected


def test_penalties_count_the_output_inside_a_block_too() -> None:
    script = {"say": ["a", "a", "a", "a"], "block": 4}
    rules = SamplingRules(frequency_penalty=14.0)
    assert ids(FakeEngine(), script, rules) == [97, 97, 97, IM_END]
    assert ids(FakeEngine(), {**script, "block": 1}, rules) == [97, 97, 97, IM_END]
    # Below the end token (30) at once; the penalty of presence does not grow.
    assert ids(FakeEngine(), script, SamplingRules(presence_penalty=31.0)) == [97, IM_END]
    assert ids(FakeEngine(), script, SamplingRules(presence_penalty=29.0)) == [97, 97, 97, 97, IM_END]


@pytest.mark.spec("ENG-079", "API-174")
def test_a_repeated_ngram_is_lowered_by_four_and_not_banned() -> None:
    script = {"say": ["\x01", "\x02", "\x01", "\x02"]}
    near, far = ({0x7F: bias} for bias in (57.0, 55.0))
    assert ids(FakeEngine(), script, SamplingRules(no_repeat_ngram=2, logit_bias=near), count=4) == [1, 2, 1, 0x7F]
    assert ids(FakeEngine(), script, SamplingRules(no_repeat_ngram=2, logit_bias=far), count=4) == [1, 2, 1, 2]


def test_sampling_is_seeded_and_spreads_as_the_row_says() -> None:
    script = {"say": ["\x01"] * 400, "loop": True}

    # Two ids of equal weight, and the truncations that leave one of them.
    def drawn(**rules: Any) -> list[int]:
        return ids(FakeEngine(), script, SamplingRules(logit_bias={2: 60.0}, temperature=1.0, **rules), count=400)

    assert drawn(seed=1) == drawn(seed=1) != drawn(seed=2)
    assert drawn(seed=1) != drawn(seed=1, choice=1)
    assert 150 < drawn(seed=1).count(1) < 250
    assert set(drawn(seed=1, top_k=1)) == {1}
    assert set(drawn(seed=1, top_p=0.4)) == {1}
    assert set(drawn(seed=1, min_p=0.9)) == {1, 2}
    assert drawn() == drawn()


def test_a_flat_row_is_drawn_from_the_whole_vocabulary() -> None:
    rules = SamplingRules(temperature=1000.0, seed=3)
    drawn = ids(FakeEngine(), {"say": ["\x01"] * 5, "loop": True}, rules, count=5)
    assert len(set(drawn)) == 5
    assert max(drawn) > 1000
    kept = SamplingRules(temperature=1000.0, seed=3, top_k=2)
    assert set(ids(FakeEngine(), {"say": ["\x01"] * 5, "loop": True}, kept, count=20)) <= {1, IM_END}


@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_the_short_way_draws_what_the_whole_row_would(temperature: float) -> None:
    script = {"say": "a b c d e f g h"}
    short = ids(FakeEngine(), script, SamplingRules(temperature=temperature, seed=4), count=20)
    whole = ids(FakeEngine(), script, SamplingRules(temperature=temperature, seed=4, logprobs=0), count=20)
    assert short == whole


def test_log_probabilities_are_those_of_the_whole_row() -> None:
    engine = FakeEngine()
    accepted = one_round(
        engine, opened(engine, {"say": "a"}), SamplingRules(logprobs=4, logit_bias={97: -30.0, 5: 1.0})
    )
    total = math.log(2 * math.exp(30) + math.exp(1) + VOCAB_SIZE - 3)
    [entry] = accepted.logprobs
    assert entry.token == 97
    assert entry.logprob == pytest.approx(30 - total)
    assert [token for token, _ in entry.top] == [97, IM_END, 5, 0]
    assert [logprob for _, logprob in entry.top] == pytest.approx([30 - total, 30 - total, 1 - total, -total])
    assert one_round(engine, opened(engine, {"say": "a"}), SamplingRules(logprobs=0)).logprobs[0].top == ()
