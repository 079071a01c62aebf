"""The walk over rows, without a model: what it draws, and what a mask leaves of a tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.decoding.language import allowed
from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.penalties import History
from tandem.engine.decoding.sequence import Rows
from tandem.engine.decoding.walk import walk
from tandem.engine.errors import NumericalError
from tandem.engine.verbs import EMPTY_TREE, SamplingRules, Tree
from tests.engine.decoding import reference
from tests.engine.decoding.masks import SetMask

VOCAB = 6
PAIRS = 10_000
"""20,000 draws."""
TREE = Tree((0, 1, 3, 1, 2), (-1, 0, 0, -1, 3))
"""Nodes of depth 1 carry 0 and 1; behind the first come 1 and 3, behind the second 2."""
ROWS = torch.tensor([[math.sin(3.0 * token + 5.0 * row) * 1.5 for token in range(VOCAB)] for row in range(6)])
CHI_SQUARE_999 = 66.62
"""The 0.999 quantile of chi-square with 36 - 1 degrees of freedom: pairs of tokens."""


def rows(tree: Tree = TREE, logits: torch.Tensor = ROWS) -> Rows:
    return Rows(logits[0], 0, 0.0, tree, logits[1:])


@pytest.mark.spec("ENG-068")
def test_pairs_drawn_over_a_tree_follow_the_target() -> None:
    """The first two tokens of a round and of what follows it: as drawn plainly from the rows of their paths."""
    rules, noise, counts = SamplingRules(temperature=0.9), Noise(5), np.zeros((VOCAB, VOCAB))
    children = {(): ROWS[0], (0,): ROWS[1], (1,): ROWS[4]}
    other = ROWS[5]
    for _ in range(PAIRS):
        history = History((0,))
        taken = walk(rows(), rules, history, noise).ids
        if len(taken) == 1:  # the next round's root has the row of its own path
            taken += walk(Rows(children.get(taken, other), 1), rules, history, noise).ids
        counts[taken[0], taken[1]] += 1
    first = reference.distribution(ROWS[0].double().numpy(), rules)
    seconds = [children.get((token,), other).double().numpy() for token in range(VOCAB)]
    expected = PAIRS * np.array(
        [first[token] * reference.distribution(row, rules) for token, row in enumerate(seconds)]
    )
    assert expected.min() > 5
    assert ((counts - expected) ** 2 / expected).sum() < CHI_SQUARE_999


@pytest.mark.spec("ENG-081")
def test_penalties_count_the_tokens_of_the_rows_own_path() -> None:
    flat = torch.zeros(6, VOCAB)
    flat[:, 1] = 1.0
    history = History((4,))
    tree = Tree((1, 1, 1), (-1, 0, 1))
    assert walk(rows(tree, flat), replace(SamplingRules(), frequency_penalty=0.6), history, Noise(0)).ids == (1, 1, 0)
    assert list(history.ids) == [4, 1, 1, 0]


@pytest.mark.spec("ENG-059", "ENG-076")
def test_a_row_that_is_not_finite_takes_the_whole_walk_back() -> None:
    logits = torch.zeros(6, VOCAB)
    logits[:, 0] = 1.0
    logits[1] = torch.nan
    history = History((4,))
    history.counts(), history.seen()
    with pytest.raises(NumericalError) as caught:
        walk(rows(TREE, logits), SamplingRules(frequency_penalty=0.1), history, Noise(0))
    assert caught.value.position == 1
    assert list(history.ids) == [4]
    assert (history.counts(), history.seen()) == ({}, {4})


class OddPaths(SetMask):
    """Allows at depth n what is not n."""

    def allows(self, path: Sequence[int], token: int) -> bool:
        return token != len(path)


@pytest.mark.spec("ENG-086")
def test_nodes_outside_the_language_go_with_all_behind_them() -> None:
    mask = OddPaths(None)
    tree = replace(TREE, scores=(0.9, 0.8, 0.7, 0.6, 0.5), sources=("a", "b", "c", "d", "e"))
    assert allowed(tree, mask) == Tree((1, 2), (-1, 0), (0.6, 0.5), ("d", "e"))
    assert allowed(tree, None) is tree
    assert allowed(EMPTY_TREE, mask) is EMPTY_TREE
    assert allowed(Tree((0,), (-1,)), mask) == EMPTY_TREE
    assert allowed(tree, SetMask(None)) is tree


@pytest.mark.spec("ENG-039", "ENG-079")
@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), max_size=12), st.integers(0, 12))
def test_a_history_that_is_cut_never_was_longer(prompt: list[int], output: list[int], keep: int) -> None:
    history = History(prompt, output)
    history.counts(), history.seen(), history.repeats(2)
    history.cut(len(prompt) + min(keep, len(output)))
    history.extend([3, 1])
    short = History(prompt, [*output[:keep], 3, 1])
    assert list(history.ids) == list(short.ids)
    assert (history.counts(), history.seen(), history.repeats(2)) == (short.counts(), short.seen(), short.repeats(2))
