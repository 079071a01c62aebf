"""Drafting by lookup: copies are long, novelties are left alone, and no state of it can reach the text."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.drafting.combined import Combined
from tandem.engine.drafting.lookup import BUDGET, LookupDrafter
from tandem.engine.drafting.matches import Match, OwnText
from tandem.engine.drafting.prices import Prices
from tandem.engine.drafting.suffixes import DEPTH
from tandem.engine.verbs import EMPTY_TREE, Tree
from tests.engine.drafting.target import deepest, rounds


def novel(count: int, seed: int = 0, vocab: int = 40_000) -> list[int]:
    return random.Random(seed).choices(range(vocab), k=count)


def per_round(drafter: LookupDrafter | Combined, prompt: list[int], text: list[int]) -> float:
    done = [each.committed for each in rounds(drafter, prompt, text)]
    return sum(done) / len(done)


@pytest.mark.spec("ENG-051", "ENG-064")
def test_a_copy_commits_more_than_eight_tokens_a_round() -> None:
    document = novel(600)
    for drafter in (LookupDrafter(), Combined([LookupDrafter()])):
        assert per_round(drafter, [*document, 1, 2, 3], document) > 15


@pytest.mark.spec("ENG-049")
def test_a_copy_with_edits_recovers() -> None:
    document = novel(1_000)
    edited = [novel(1, seed=at)[0] if at % 40 == 0 else token for at, token in enumerate(document)]
    assert per_round(LookupDrafter(), [*document, 1, 2], edited) > 10


def test_a_replaced_token_does_not_end_a_copy() -> None:
    document = novel(100)
    ids = [*document, 1, *document[:50]]
    text = OwnText()
    text.start(ids)
    assert [match.kind for match in text.matches(ids[-32:], 16, 3)] == [""]
    text.extend([*ids, 7])
    assert text.matches([*ids[-31:], 7], 16, 3) == [Match(2, document[51:54], 51 / 152, "edited")]
    text.extend([*ids, 7, *document[51:55]])
    assert [match.kind for match in text.matches(document[51:55], 16, 3)] == [""]


@pytest.mark.spec("ENG-049")
def test_nothing_is_proposed_for_what_was_never_there() -> None:
    proposed = [len(each.tree.tokens) for each in rounds(Combined([LookupDrafter()]), novel(2_000), novel(500, seed=1))]
    assert sum(proposed) < len(proposed) / 10


@pytest.mark.spec("ENG-049")
def test_matches_that_mislead_are_soon_not_worth_a_row() -> None:
    # Few tokens, so that everything has stood somewhere, and chance alone decides what comes after it.
    costs = {1: 10.0, 32: 20.0}
    prices = Prices({(0, "chain"): costs, (0, "tree"): costs})
    drafter = Combined([LookupDrafter()], prices)
    done = list(rounds(drafter, novel(2_000, vocab=40), novel(2_000, seed=1, vocab=40)))
    late = done[len(done) // 2 :]
    assert sum(len(each.tree.tokens) for each in late) < len(late) / 2


@pytest.mark.spec("ENG-051")
def test_the_deep_chain_follows_two_whole_rounds() -> None:
    document = novel(200)
    done = list(rounds(LookupDrafter(), [*document, 1], document))
    assert done[0].tree.tokens == ()
    wide = [deepest(each.tree) for each in done]
    first = next(at for at, width in enumerate(wide) if width > BUDGET)
    assert wide[first] == 31
    assert all(done[at].committed == wide[at] + 1 > 1 for at in (first - 2, first - 1))
    off = list(rounds(LookupDrafter(deep=0), [*document, 1], document))
    assert max(deepest(each.tree) for each in off) == BUDGET


def test_a_loop_unrolls() -> None:
    ids = [*[5, 6, 7, 8] * 4, 5, 6]
    drafter = LookupDrafter()
    drafter.start(ids, 0)
    tree = drafter.propose(ids, 31, 9)
    assert tree.tokens[:9] == (7, 8, 5, 6, 7, 8, 5, 6, 7)


def test_branches_are_weighted() -> None:
    # 7 came twice after (1, 2), 8 once.
    ids = [1, 2, 7, 90, 1, 2, 8, 91, 1, 2, 7, 92, 1, 2]
    drafter = LookupDrafter()
    drafter.start(ids, 0)
    tree = drafter.propose(ids, 8, 1)
    assert set(tree.tokens) == {7, 8}
    score = dict(zip(tree.tokens, tree.scores, strict=True))
    assert score[7] > score[8] > 0
    assert set(tree.sources) == {"lookup"}


def test_barred_ids_are_never_proposed() -> None:
    ids = [1, 2, 3, 99, 99, 4, 1, 2]
    drafter = LookupDrafter(barred={99})
    drafter.start(ids, 0)
    assert drafter.propose(ids, 31, 10).tokens == (3,)
    drafter.start([1, 99, 99, 99, 99], 0)
    assert drafter.propose([1, 99, 99, 99, 99], 31, 10) == EMPTY_TREE


def test_other_sources_propose_what_the_request_does_not_hold() -> None:
    class Source:
        def matches(self, last: object, count: int, depth: int) -> list[Match]:
            return [Match(6, [10, 11, 12][:depth])]

    drafter = LookupDrafter({"corpus": Source()})
    drafter.start([1], 0)
    assert drafter.propose([1], 31, 31).tokens == (10, 11, 12)
    assert drafter.propose([1], 31, 2).tokens == (10, 11)
    assert drafter.propose([1], 2, 31).tokens == (10, 11)
    assert drafter.propose([1], 31, 0) == EMPTY_TREE


@pytest.mark.spec("ENG-048")
def test_a_text_that_changes_under_it_is_indexed_anew() -> None:
    drafter = LookupDrafter()
    drafter.start(novel(50), 0)
    drafter.propose(novel(50), 31, 31)
    other = [*novel(30, seed=7), *novel(5, seed=7)]
    tree = drafter.propose(other, 31, 31)
    assert tree.tokens[:3] == tuple(novel(30, seed=7)[5:8])


tokens = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@given(tokens, st.lists(tokens, max_size=6), st.integers(1, 40))
@pytest.mark.spec("ENG-049")
def test_the_longest_matches_are_found(prompt: list[int], steps: list[list[int]], runs: int) -> None:
    text = OwnText()
    text._RUNS = runs
    text.start(prompt)
    ids = list(prompt)
    for step in [[], *steps]:
        ids += step
        text.extend(ids)
        found = [match for match in text.matches(ids[-32:], count=10_000, depth=3) if not match.kind]
        there = range(1, len(ids))
        length = {
            end: next((n for n in range(min(end, 32)) if ids[end - 1 - n] != ids[-1 - n]), min(end, 32))
            for end in there
        }
        best = max(length.values(), default=0)
        assert max((match.length for match in found), default=0) == (best if best >= 2 else 0)
        ahead = [*ids, *[-1] * 3]
        for match in found:
            ends = [end for end in there if length[end] == match.length]
            known = [[token for token in ahead[end : end + 3] if token >= 0] for end in ends]
            assert any(list(match.follow[: len(each)]) == each for each in known)
            assert match.length >= min(best, 2)
    assert DEPTH == 8


@settings(deadline=None)
@given(st.lists(st.tuples(tokens, st.integers(0, 31), st.integers(0, 31)), max_size=12))
def test_any_calls_in_any_order_give_sound_trees(calls: list[tuple[list[int], int, int]]) -> None:
    drafter = LookupDrafter()
    for ids, nodes, depth in calls:
        tree = drafter.propose(ids, nodes, depth)
        assert len(tree.tokens) <= nodes
        assert deepest(tree) <= depth
        drafter.learn(tree, len(tree.tokens))
    assert isinstance(drafter.propose([1, 2, 1, 2], 31, 31), Tree)
