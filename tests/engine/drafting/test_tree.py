"""Draft trees: what is made sound is sound, whatever was proposed; what is cut keeps its ancestors."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.drafting.tree import NODES, Trie, chain, cut, depths, merged, sound
from tandem.engine.verbs import EMPTY_TREE, Tree

VOCAB = 10

Path = tuple[int, ...]


def paths(tree: Tree) -> list[Path]:
    """The tokens from the root down to each node."""
    found: list[Path] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


def is_sound(tree: Tree) -> bool:
    """Depth first, parents before children, subtrees contiguous, no sibling twice, annotations of every node."""
    trail: list[int] = []
    for node, parent in enumerate(tree.parents):
        while trail and trail[-1] != parent:
            trail.pop()
        if parent != (trail[-1] if trail else -1):
            return False
        trail.append(node)
    count = len(tree.tokens)
    same = len(tree.parents) == count and {len(tree.scores), len(tree.sources)} <= {0, count}
    return same and len(set(paths(tree))) == count and all(0 <= token < VOCAB for token in tree.tokens)


anything = st.integers(0, 50).flatmap(
    lambda count: st.builds(
        Tree,
        st.lists(st.integers(-2, VOCAB + 1), min_size=count, max_size=count).map(tuple),
        st.lists(st.integers(-3, 40), max_size=count + 1).map(tuple),
        st.lists(st.floats(allow_nan=True, allow_infinity=True, width=16), max_size=count + 1).map(tuple),
        st.lists(st.sampled_from(["a", "b"]), max_size=count).map(tuple),
    )
)
trees = anything.map(lambda tree: sound(tree, VOCAB, nodes=50)[0])
grown = st.lists(
    st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.floats(0, 1)), min_size=1, max_size=20
).map(lambda branches: merged([chain(tokens, [score] * len(tokens), "x") for tokens, score in branches]))


@given(anything, st.integers(0, NODES), st.none() | st.integers(0, 6))
@pytest.mark.spec("ENG-055")
def test_whatever_is_proposed_becomes_sound(tree: Tree, nodes: int, depth: int | None) -> None:
    whole, gone = sound(tree, VOCAB, nodes, depth)
    assert is_sound(whole)
    assert len(whole.tokens) <= nodes
    assert gone == max(len(tree.tokens), len(tree.parents)) - len(whole.tokens)
    assert all(0 <= score <= 1 for score in whole.scores)
    assert depth is None or max(depths(whole), default=0) <= depth


@given(grown)
def test_a_sound_tree_stays_as_it_is(tree: Tree) -> None:
    assert is_sound(tree)
    assert sound(tree, VOCAB, nodes=len(tree.tokens)) == (tree, 0)


@pytest.mark.spec("ENG-055")
def test_what_is_cut() -> None:
    #      0  1(vocabulary)  2(of 1)  3(sibling of 0)  4(of 3, so of 0)  5(parent behind it)  6(of itself)
    tree = Tree((1, 99, 2, 1, 5, 6, 7), (-1, -1, 1, -1, 3, 6, 6))
    assert sound(tree, VOCAB) == (Tree((1, 5), (-1, 0)), 5)
    assert sound(Tree((1, 2, 3), (-1,)), VOCAB) == (Tree((1,), (-1,)), 2)
    assert sound(Tree((1, 2), (-1, -1), (math.nan, 7.0)), VOCAB)[0].scores == (0.0, 1.0)


def test_order_becomes_depth_first() -> None:
    assert sound(Tree((1, 2, 3, 4), (-1, -1, 0, 1), (0.9, 0.1, 0.8, 0.05)), VOCAB) == (
        Tree((1, 3, 2, 4), (-1, 0, -1, 2), (0.9, 0.8, 0.1, 0.05)),
        0,
    )


@given(st.lists(trees, max_size=4))
@pytest.mark.spec("ENG-055")
def test_merging_keeps_every_path_once(several: list[Tree]) -> None:
    together = merged(several)
    assert is_sound(together)
    assert set(paths(together)) == {path for tree in several for path in paths(tree)}


def test_merging_keeps_the_better_score() -> None:
    one = chain([1, 2], [0.5, 0.4], "mtp")
    other = Tree((1, 3), (-1, 0), (0.8, 0.2), ("lookup", "lookup"))
    assert merged([one, other]) == Tree((1, 2, 3), (-1, 0, 0), (0.8, 0.4, 0.2), ("lookup", "mtp", "lookup"))
    assert merged([]) == EMPTY_TREE


@given(grown, st.integers(0, NODES))
@pytest.mark.spec("ENG-163")
def test_a_cut_keeps_the_best_with_their_ancestors(tree: Tree, nodes: int) -> None:
    less = cut(tree, nodes)
    kept, whole = paths(less), paths(tree)
    assert is_sound(less)
    assert len(kept) == min(nodes, len(whole))
    assert {path[:-1] for path in kept} <= {(), *kept}
    reach = {path: min(tree.scores[whole.index(path[: n + 1])] for n in range(len(path))) for path in whole}
    left = [reach[path] for path in whole if path not in kept]
    assert min((reach[path] for path in kept), default=1.0) >= max(left, default=0.0)


def test_depths() -> None:
    assert depths(Tree((1, 2, 3, 4, 5), (-1, 0, 0, -1, 3))) == (1, 2, 2, 1, 2)


def test_a_trie_takes_nodes_in_any_order() -> None:
    trie = Trie()
    first, second = trie.add(-1, 1), trie.add(-1, 2)
    trie.add(second, 3, 0.5)
    assert trie.add(-1, 1, 0.25, "late") == first
    assert trie.tree() == Tree((1, 2, 3), (-1, -1, 1), (0.25, 0.0, 0.5), ("late", "", ""))
