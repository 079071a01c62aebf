"""Draft trees: made whole, merged by shared prefix, cut to a share (ENG-055, ENG-056, ENG-163). No tensors.

A score is the estimated probability that the walk reaches a node, so along a path scores never rise. Where they are
given otherwise a node counts for no more than its ancestors do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from tandem.engine.verbs import EMPTY_TREE, Tree

T = TypeVar("T")

__all__ = ["NODES", "SHARES", "Trie", "chain", "cut", "depths", "merged", "share", "sound", "walked"]

NODES = 31
"""Drafted nodes of the widest tree; the root makes the 32nd row (ENG-056)."""
SHARES: Final = {1: NODES, 2: 16, 3: 10, 4: 8}
"""Nodes of each tree where so many slots verify together (SCH-065)."""


class Trie:
    """A tree while it grows: nodes may be added in any order behind their parent, `tree` puts them depth first."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._scores: list[float | None] = []
        self._sources: list[str] = []
        self._at: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def add(self, parent: int, token: int, score: float | None = None, source: str = "") -> int:
        """The node `token` behind `parent`, -1 for the root. One that is there takes a better score and its source."""
        node = self._at.setdefault((parent, token), len(self._tokens))
        if node == len(self._tokens):
            self._tokens.append(token)
            self._parents.append(parent)
            self._scores.append(score)
            self._sources.append(source)
        elif score is not None and score > (self._scores[node] or 0.0):
            self._scores[node], self._sources[node] = score, source
        return node

    def tree(self) -> Tree:
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(self._parents):
            children.setdefault(parent, []).append(node)
        order: list[int] = []
        ahead = children.get(-1, [])[::-1]
        while ahead:
            order.append(ahead.pop())
            ahead += children.get(order[-1], [])[::-1]
        place = {node: at for at, node in enumerate(order)} | {-1: -1}
        scored = any(score is not None for score in self._scores)
        return Tree(
            tuple(self._tokens[node] for node in order),
            tuple(place[self._parents[node]] for node in order),
            tuple(self._scores[node] or 0.0 for node in order) if scored else (),
            tuple(self._sources[node] for node in order) if any(self._sources) else (),
        )


def chain(tokens: Sequence[int], scores: Sequence[float] = (), source: str = "") -> Tree:
    """The tree that is one path."""
    return Tree(
        tuple(tokens), tuple(range(-1, len(tokens) - 1)), tuple(scores), (source,) * len(tokens) if source else ()
    )


def depths(tree: Tree) -> tuple[int, ...]:
    """Depth of each node; a child of the root has 1."""
    found: list[int] = []
    for parent in tree.parents:
        found.append(1 if parent < 0 else found[parent] + 1)
    return tuple(found)


def sound(tree: Tree, vocab: int, nodes: int = NODES, depth: int | None = None) -> tuple[Tree, int]:
    """`tree` as it may be verified, and how many of its nodes had to go: never a crash, whatever a drafter says.

    Gone are ids outside the vocabulary, nodes whose parent does not come before them or is gone itself, nodes below
    `depth`, the second of two siblings with one token (its children become the first one's), and what is over `nodes`.
    """
    total = max(len(tree.tokens), len(tree.parents))
    scores, sources = _fitting(tree.scores, total), _fitting(tree.sources, total)
    trie, place, deep = Trie(), {-1: -1}, {-1: 0}
    for at, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=False)):
        if parent not in place or not 0 <= token < vocab or (depth is not None and deep[parent] >= depth):
            continue
        score = _likely(scores[at]) if scores else None
        place[at] = trie.add(place[parent], token, score, sources[at] if sources else "")
        deep[at] = deep[parent] + 1
    whole = cut(trie.tree(), nodes)
    return whole, total - len(whole.tokens)


def merged(trees: Iterable[Tree]) -> Tree:
    """One tree of all paths. A node that several propose has the best of its scores, and the source that gave it."""
    trie = Trie()
    for tree in trees:
        place = {-1: -1}
        for at, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
            score = tree.scores[at] if tree.scores else None
            place[at] = trie.add(place[parent], token, score, tree.sources[at] if tree.sources else "")
    return trie.tree()


def cut(tree: Tree, nodes: int) -> Tree:
    """The `nodes` best-scored nodes with their ancestors; without scores the first ones."""
    if len(tree.tokens) <= nodes:
        return tree
    if nodes < 1:
        return EMPTY_TREE
    reach = _reach(tree)
    # No node reaches further than its parent, which comes first among equals: what is kept holds its ancestors.
    best = sorted(range(len(reach)), key=lambda node: (-reach[node], node))[:nodes]
    kept = sorted(best)
    place = {node: at for at, node in enumerate(kept)} | {-1: -1}
    return Tree(
        tuple(tree.tokens[node] for node in kept),
        tuple(place[tree.parents[node]] for node in kept),
        tuple(tree.scores[node] for node in kept) if tree.scores else (),
        tuple(tree.sources[node] for node in kept) if tree.sources else (),
    )


def share(slots: int) -> int:
    """Nodes that each of `slots` trees of one pass may have, so that it has about as many rows as the widest tree."""
    return SHARES.get(slots, (NODES + 1) // slots)


def walked(tree: Tree, tokens: Sequence[int]) -> int:
    """How many of `tokens` stand on one path from the root."""
    children = {pair: node for node, pair in enumerate(zip(tree.parents, tree.tokens, strict=True))}
    node, count = -1, 0
    for token in tokens:
        if (node := children.get((node, token), -1)) < 0:
            break
        count += 1
    return count


def _reach(tree: Tree) -> list[float]:
    """Each node's score, at most its parent's."""
    reach: list[float] = []
    for node, parent in enumerate(tree.parents):
        score = tree.scores[node] if tree.scores else 1.0
        reach.append(score if parent < 0 else min(score, reach[parent]))
    return reach


def _likely(score: float) -> float:
    return min(1.0, max(0.0, score)) if math.isfinite(score) else 0.0


def _fitting(values: tuple[T, ...], count: int) -> tuple[T, ...]:
    return values if len(values) == count else ()
