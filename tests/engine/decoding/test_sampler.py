"""The sampler against a plain NumPy reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.penalties import History, adjust
from tandem.engine.decoding.sampler import kept, sample
from tandem.engine.errors import NumericalError
from tandem.engine.verbs import SamplingRules
from tests.engine.decoding import reference
from tests.engine.decoding.masks import SetMask

VOCAB = 24
TOKENS = st.integers(0, VOCAB - 1)
QUARTERS = st.integers(-32, 32).map(lambda n: n / 4)
"""Coarse logits, so that ties are common and penalties can be told exactly."""
ROWS = st.lists(QUARTERS, min_size=VOCAB, max_size=VOCAB)
IDS = st.lists(st.integers(0, 5), max_size=12)
"""Few different ids, so that n-grams repeat."""
ADJUSTING = st.builds(
    SamplingRules,
    repetition_penalty=st.sampled_from([1.0, 0.5, 1.5, 2.0]),
    presence_penalty=st.sampled_from([0.0, -2.0, 0.5]),
    frequency_penalty=st.sampled_from([0.0, -0.25, 0.5]),
    no_repeat_ngram=st.integers(0, 4),
    logit_bias=st.dictionaries(TOKENS, st.sampled_from([-100.0, -1.0, 2.5, 100.0]), max_size=4),
    mask=st.none() | st.frozensets(TOKENS, min_size=1).map(SetMask) | st.just(SetMask(None)),
)
GREEDY = SamplingRules()
PINNED = (1.2942348749204953, 0.8513547711794993, 1.619979849799306, -0.17716812456540948)
"""Noise of the first four tokens under seed 42 at index 3."""
CHI_SQUARE_999 = 27.877
"""The 0.999 quantile of chi-square with 9 degrees of freedom."""
DRAWS = 20_000


def token_of(row: list[float], rules: SamplingRules = GREEDY, output: int = 0) -> int:
    history = History((), [0] * output)
    return sample(torch.tensor(row), rules, history, Noise(0), position=0)[0]


@pytest.mark.spec("ENG-075", "ENG-077", "ENG-078", "ENG-079", "ENG-080", "API-172", "API-174")
@settings(deadline=None)
@given(ROWS, ADJUSTING, IDS, IDS)
def test_adjusted_rows_equal_the_reference(
    row: list[float], rules: SamplingRules, prompt: list[int], output: list[int]
) -> None:
    given_row = torch.tensor(row)
    ours = adjust(given_row, rules, History(prompt, output))
    assert np.allclose(ours.numpy(), reference.adjusted(row, rules, prompt, output), rtol=1e-6, atol=1e-6)
    assert given_row.tolist() == row


@pytest.mark.spec("ENG-079")
@settings(deadline=None)
@given(IDS, IDS, st.integers(1, 4))
def test_history_grown_by_steps_equals_history_built_at_once(prompt: list[int], output: list[int], n: int) -> None:
    grown = History(prompt)
    for token in output:
        grown.counts(), grown.seen(), grown.repeats(n)
        grown.extend([token])
    whole = History(prompt, output)
    assert grown.counts() == whole.counts()
    assert grown.seen() == whole.seen()
    assert grown.repeats(n) == whole.repeats(n)
    assert grown.written == whole.written == len(output)


@pytest.mark.spec("ENG-075")
@settings(deadline=None)
@given(
    ROWS,
    st.sampled_from([0.25, 0.7, 1.0, 2.0]),
    st.integers(0, VOCAB + 2),
    st.sampled_from([0.01, 0.3, 0.5, 0.9, 0.999, 1.0]),
    st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    st.frozensets(TOKENS, max_size=VOCAB - 1),
)
def test_filters_keep_what_the_reference_keeps(
    row: list[float], temperature: float, top_k: int, top_p: float, min_p: float, forbidden: frozenset[int]
) -> None:
    rules = SamplingRules(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    masked = np.array([-np.inf if token in forbidden else value for token, value in enumerate(row)])
    wanted = reference.distribution(masked, rules)
    for nudge in (-1e-9, 1e-9):
        # A border that rounding alone decides tells nothing.
        beside = replace(rules, top_p=top_p + nudge if top_p < 1 else top_p, min_p=max(0.0, min_p + nudge))
        assume(min_p == 1.0 or np.array_equal(reference.distribution(masked, beside) > 0, wanted > 0))
    scaled = torch.from_numpy(masked) / temperature
    ids = kept(scaled, rules)
    chosen = range(VOCAB) if ids is None else ids.tolist()
    assert {token for token in chosen if masked[token] > -np.inf} == set(np.flatnonzero(wanted).tolist())
    assert reference.order(masked)[0] in chosen


@pytest.mark.spec("ENG-075")
def test_top_p_over_a_wide_vocabulary_keeps_the_smallest_set() -> None:
    row = torch.randn(5000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.1
    shares = torch.softmax(row, 0).sort(descending=True).values.cumsum(0)
    for top_p in (0.0001, 0.05, 0.3, 0.9, 0.9999):
        ids = kept(row, SamplingRules(temperature=1.0, top_p=top_p))
        assert ids is not None
        assert len(ids) == int((shares < top_p).sum()) + 1
    ids = kept(row, SamplingRules(temperature=1.0, top_p=math.nextafter(1.0, 0.0), top_k=4000))
    assert ids is not None
    assert len(ids) <= 4000


@pytest.mark.spec("ENG-076", "API-170")
@settings(deadline=None)
@given(ROWS, st.sampled_from([0.0, 9e-6]), st.integers(0, 3))
def test_greedy_takes_the_lowest_of_the_best(row: list[float], temperature: float, top_k: int) -> None:
    rules = SamplingRules(temperature=temperature, top_k=top_k, top_p=0.5, seed=1)
    assert token_of(row, rules) == row.index(max(row))


@pytest.mark.spec("ENG-076")
@settings(deadline=None)
@given(ROWS, TOKENS, st.sampled_from([0.0, 1.0]))
def test_nan_anywhere_is_an_error_with_its_position(row: list[float], at: int, temperature: float) -> None:
    row = [*row]
    row[at] = math.nan
    with pytest.raises(NumericalError) as caught:
        sample(torch.tensor(row), SamplingRules(temperature=temperature), History(()), Noise(0), position=17)
    assert caught.value.position == 17


@pytest.mark.spec("ENG-076")
@pytest.mark.parametrize("size", [1, 7, 49_152])
def test_a_row_without_a_finite_logit_is_an_error(size: int) -> None:
    for value in (-math.inf, math.inf, math.nan):
        with pytest.raises(NumericalError):
            token_of([value] * size)
    if size > 1:
        assert token_of([-math.inf] * (size - 1) + [0.0]) == size - 1


@pytest.mark.spec("ENG-076")
def test_a_mask_that_leaves_nothing_is_an_error_and_no_random_token() -> None:
    with pytest.raises(NumericalError):
        token_of([0.0, 1.0], SamplingRules(temperature=1.0, mask=SetMask(frozenset())))


class AskedMask(SetMask):
    """Notes what it is told."""

    def __init__(self, *allowed: int) -> None:
        super().__init__(frozenset(allowed))
        object.__setattr__(self, "best", [])

    best: list[int]

    def bits(self, path: Sequence[int], best: int) -> bytes | None:
        self.best.append(best)
        return super().bits(path, best)


@pytest.mark.spec("ENG-075", "ENG-091")
def test_a_mask_is_told_what_the_row_would_choose_without_it() -> None:
    mask = AskedMask(0, 1)
    rules = SamplingRules(mask=mask)
    assert token_of([0.0, 1.0, 3.0, 3.0], rules) == 1
    assert token_of([0.0, 1.0, 3.0, 3.0], replace(rules, logit_bias={2: -1.0})) == 1
    assert token_of([3.0, 1.0, 2.5, 0.0], replace(rules, presence_penalty=1.0), output=1) == 0
    assert mask.best == [2, 3, 2]


@pytest.mark.spec("ENG-067", "API-173")
@settings(deadline=None)
@given(ROWS, st.integers(-(2**63), 2**64 - 1), st.integers(0, 500))
def test_a_seeded_token_is_the_argmax_of_log_p_plus_noise(row: list[float], seed: int, index: int) -> None:
    rules = SamplingRules(temperature=0.8, top_k=5, seed=seed)
    shares = reference.distribution(np.array(row), rules)
    gumbel = Noise(0).seeded(seed, 0, index, VOCAB).numpy()
    with np.errstate(divide="ignore"):
        scores = np.log(shares) + gumbel
    assert token_of(row, rules, output=index) == int(scores.argmax())


@pytest.mark.spec("ENG-067", "ENG-083", "API-173")
def test_noise_is_a_function_of_seed_choice_and_index_alone() -> None:
    draws = {key: Noise().seeded(*key, VOCAB) for key in [(5, 0, 0), (5, 0, 1), (5, 1, 0), (6, 0, 0), (-5, 0, 0)]}
    for key, noise in draws.items():
        assert torch.equal(noise, Noise().seeded(*key, VOCAB))
        assert torch.equal(noise, Noise().seeded(*key, VOCAB * 10)[:VOCAB])
        assert all(other is noise or not torch.equal(other, noise) for other in draws.values())


@pytest.mark.spec("ENG-067")
def test_seeded_noise_stays_the_same_over_releases() -> None:
    noise = Noise().seeded(42, 0, 3, 4).tolist()
    assert noise == pytest.approx(PINNED, abs=1e-12)


def test_unseeded_noise_differs_between_engines_and_between_draws() -> None:
    noise = Noise()
    assert not torch.equal(noise.unseeded(8), noise.unseeded(8))
    assert not torch.equal(Noise().unseeded(8), Noise().unseeded(8))


def chi_square(seed: int | None) -> float:
    """Of `DRAWS` draws against the reference's distribution, over its ten likeliest tokens."""
    row = [math.sin(3.0 * token) * 1.5 for token in range(VOCAB)]
    rules = SamplingRules(temperature=0.9, top_k=10, seed=seed)
    shares = reference.distribution(np.array(row), rules)
    noise, history, logits = Noise(11), History(()), torch.tensor(row)
    counts = np.zeros(VOCAB)
    for _ in range(DRAWS):
        token, _ = sample(logits, rules, history, noise, position=0)
        counts[token] += 1
        history.extend((token,))
    drawn = shares > 0
    assert drawn.sum() == 10
    assert not counts[~drawn].any()
    expected = shares[drawn] * DRAWS
    return float(((counts[drawn] - expected) ** 2 / expected).sum())


@pytest.mark.spec("ENG-067", "ENG-068", "API-172")
@pytest.mark.parametrize("seed", [None, 20_240_229])
def test_draws_follow_the_distribution(seed: int | None) -> None:
    assert chi_square(seed) < CHI_SQUARE_999  # p > 0.001


@pytest.mark.spec("ENG-082")
@settings(deadline=None)
@given(ROWS, ADJUSTING, IDS, IDS, st.integers(0, 20), st.sampled_from([0.0, 1.3]))
def test_logprobs_are_those_of_the_adjusted_row(
    row: list[float], rules: SamplingRules, prompt: list[int], output: list[int], count: int, temperature: float
) -> None:
    rules = replace(rules, logprobs=count, temperature=temperature, top_k=3, seed=4)
    token, logprob = sample(torch.tensor(row), rules, History(prompt, output), Noise(0), position=0)
    assert logprob is not None
    ours = adjust(torch.tensor(row), rules, History(prompt, output)).double().numpy()
    wanted = reference.log_softmax(ours)
    assert logprob.token == token
    assert logprob.logprob == pytest.approx(wanted[token], abs=1e-9)
    best = [other for other in reference.order(ours)[:count] if wanted[other] > -np.inf]
    assert [other for other, _ in logprob.top] == best
    assert [value for _, value in logprob.top] == pytest.approx([wanted[other] for other in best], abs=1e-9)


@pytest.mark.spec("ENG-082")
def test_no_logprobs_unless_asked_for() -> None:
    assert sample(torch.tensor([0.0, 1.0]), GREEDY, History(()), Noise(0), position=0) == (1, None)
