"""Draws that begin from a drafter's are draws from the target, whatever the drafter's distribution is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.penalties import History
from tandem.engine.decoding.rejection import proposed_at
from tandem.engine.decoding.sampler import draw_of, sample
from tandem.engine.decoding.sequence import Rows
from tandem.engine.decoding.walk import walk
from tandem.engine.drafting.drafter import Drawn
from tandem.engine.drafting.tree import chain
from tandem.engine.verbs import EMPTY_TREE, SamplingRules
from tests.engine.decoding import reference
from tests.engine.decoding.masks import SetMask

VOCAB = 6
DRAWS = 10_000
CHI_SQUARE_999 = {2: 13.82, 5: 20.52, 35: 66.62}
"""The 0.999 quantiles by degrees of freedom."""
ROW = torch.tensor([0.3, 1.4, -0.8, 0.9, -0.2, 0.5])
Q = {
    "near": [0.12, 0.34, 0.05, 0.24, 0.1, 0.15],
    "far": [0.02, 0.03, 0.5, 0.05, 0.35, 0.05],
    "one": [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    "half": [0.5, 0.0, 0.0, 0.0, 0.5, 0.0],
}


def drawn_of(shares: Sequence[Tensor], generator: np.random.Generator, ids: Tensor | None = None) -> Drawn:
    """A chain drawn from `shares`."""
    columns = [int(generator.choice(len(each), p=each.numpy())) for each in shares]
    tokens = columns if ids is None else ids[columns].tolist()
    return Drawn(chain(tokens), torch.stack(list(shares)), ids)


RULES = {
    "plain": SamplingRules(temperature=0.9),
    "penalised": SamplingRules(temperature=1.3, frequency_penalty=0.7, logit_bias={2: 1.5}),
    "truncated": SamplingRules(temperature=0.8, top_k=3),
}


@pytest.mark.spec("ENG-068", "ENG-069")
@pytest.mark.parametrize("q", Q)
@pytest.mark.parametrize("name", RULES)
def test_one_token_follows_the_target(name: str, q: str) -> None:
    rules, noise, counts = RULES[name], Noise(3), np.zeros(VOCAB)
    generator, shares = np.random.default_rng(4), torch.tensor([Q[q]], dtype=torch.float64)
    shares /= shares.sum()
    for _ in range(DRAWS // 10):
        proposed = proposed_at(drawn_of(list(shares), generator), 0, VOCAB)
        token, _ = sample(ROW, rules, History((0,), (1,)), noise, position=1, proposed=proposed)
        counts[token] += 1
    adjusted = ROW.double().numpy().copy()
    adjusted[1] -= rules.frequency_penalty
    adjusted[2] += rules.logit_bias.get(2, 0.0)
    target = reference.distribution(adjusted, replace(rules, frequency_penalty=0.0, logit_bias={}))
    there = target > 0
    assert not counts[~there].any()
    expected = counts.sum() * target[there]
    assert ((counts[there] - expected) ** 2 / expected).sum() < CHI_SQUARE_999[int(there.sum()) - 1]


ROWS = 0.7 * torch.randn(1 + VOCAB, VOCAB, generator=torch.Generator().manual_seed(6))
"""That of the root, and that behind each first token."""
HOT = torch.tensor([1, 2, 4, 5])


@pytest.mark.spec("ENG-068", "ENG-069")
@pytest.mark.parametrize("ids", [None, HOT], ids=["all", "hot"])
def test_pairs_of_a_drawn_chain_follow_the_target(ids: Tensor | None) -> None:
    """Two tokens of a round and of what follows it, the drafter's own rows being quite other ones."""
    rules, noise, counts = SamplingRules(temperature=0.9), Noise(5), np.zeros((VOCAB, VOCAB))
    generator = np.random.default_rng(8)
    width = VOCAB if ids is None else len(ids)
    qs = torch.softmax(torch.randn(1 + VOCAB, width, generator=torch.Generator().manual_seed(7)).double() * 1.5, dim=1)
    qs /= qs.sum(dim=1, keepdim=True)
    reached = 0
    for _ in range(DRAWS // 2):
        first = drawn_of([qs[0]], generator, ids)
        [token] = first.tree.tokens
        second = drawn_of([qs[1 + token]], generator, ids)
        drawn = Drawn(chain((token, *second.tree.tokens)), torch.stack((qs[0], qs[1 + token])), ids)
        rows = Rows(ROWS[0], 0, 0.0, drawn.tree, torch.stack((ROWS[1 + token], torch.zeros(VOCAB))))
        walked = walk(rows, rules, History((0,)), noise, drawn)
        taken, reached = walked.ids, reached + len(walked.nodes)
        if len(taken) == 1:  # the next round's root has the row of its own path
            taken += walk(Rows(ROWS[1 + taken[0]], 1), rules, History((0, *taken)), noise).ids
        counts[taken[0], taken[1]] += 1
    first_shares = reference.distribution(ROWS[0].double().numpy(), rules)
    expected = counts.sum() * np.array(
        [share * reference.distribution(ROWS[1 + at].double().numpy(), rules) for at, share in enumerate(first_shares)]
    )
    assert expected.min() > 5
    assert ((counts - expected) ** 2 / expected).sum() < CHI_SQUARE_999[35]
    assert reached > DRAWS / 8, "a chain of which nothing is taken has shown nothing"


@pytest.mark.spec("ENG-069")
def test_a_drafter_that_knows_the_target_is_always_right() -> None:
    rules, noise, generator = SamplingRules(temperature=0.9), Noise(1), np.random.default_rng(2)
    shares = torch.softmax(ROW.double() / 0.9, dim=0)
    shares /= shares.sum()
    for _ in range(300):
        drawn = drawn_of([shares] * 3, generator)
        walked = walk(Rows(ROW, 0, 0.0, drawn.tree, ROW.expand(3, -1)), rules, History((0,)), noise, drawn)
        assert walked.ids[:3] == drawn.tree.tokens
        assert len(walked.ids) == 4


@pytest.mark.spec("ENG-067", "ENG-069")
def test_who_may_be_drawn_for() -> None:
    noise, drawn = Noise(0), SamplingRules(temperature=0.7)

    def temperature(**rules: object) -> float | None:
        draw = draw_of(replace(drawn, **rules), noise)  # type: ignore[arg-type]
        return None if draw is None else draw.temperature

    assert temperature() == 0.7
    assert [temperature(draft_temperature=value) for value in (0.0, 1e-9, 0.2, 2.0)] == [0.0, 0.0, 0.2, 2.0]
    assert temperature(seed=3) is temperature(temperature=0.0) is temperature(mask=SetMask(None)) is None
    assert temperature(temperature=0.0, draft_temperature=1.0) is None


@pytest.mark.spec("ENG-067", "ENG-069")
@pytest.mark.parametrize("rules", [SamplingRules(), SamplingRules(temperature=1.0, seed=4)], ids=["greedy", "seeded"])
def test_a_chain_that_was_drawn_moves_no_greedy_or_seeded_token(rules: SamplingRules) -> None:
    for at in range(30):
        drawn = drawn_of([torch.full((VOCAB,), 1 / VOCAB, dtype=torch.float64)] * 2, np.random.default_rng(at))
        rows = Rows(ROW, 0, 0.0, drawn.tree, ROW.flip(0).expand(2, -1))
        one, other = (walk(rows, rules, History((0,)), Noise(0), each) for each in (drawn, None))
        assert one == other


def test_a_tree_that_nobody_drew_proposes_nothing() -> None:
    assert proposed_at(None, 0, VOCAB) is proposed_at(Drawn(chain((1, 2))), 0, VOCAB) is None
    assert proposed_at(Drawn(EMPTY_TREE), 0, VOCAB) is None
