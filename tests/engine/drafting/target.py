"""A model whose text is known: rounds over it without a forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tandem.engine.drafting.drafter import Drafter
from tandem.engine.drafting.tree import NODES, depths, sound
from tandem.engine.verbs import Tree


@dataclass(frozen=True, slots=True)
class Round:
    """What was proposed, and what the round committed."""

    tree: Tree
    committed: int


def rounds(drafter: Drafter, prompt: Sequence[int], text: Sequence[int], *, vocab: int = 50_000) -> Iterator[Round]:
    """The model writes `text` behind `prompt`; every proposal must be sound as it is."""
    ids, end = list(prompt), len(prompt) + len(text)
    whole = [*prompt, *text]
    drafter.start(ids, 0)
    while len(ids) < end:
        room = end - len(ids)
        tree = drafter.propose(ids, NODES, room - 1)
        assert sound(tree, vocab, NODES, room - 1) == (tree, 0)
        node, accepted = -1, 0
        while (node := child(tree, node, whole[len(ids) + accepted])) >= 0:
            accepted += 1
        ids += whole[len(ids) : len(ids) + accepted + 1]
        drafter.learn(tree, accepted)
        yield Round(tree, accepted + 1)
    drafter.end()


def child(tree: Tree, node: int, token: int) -> int:
    """The child of `node` with `token`, -1 for none."""
    places = zip(tree.tokens, tree.parents, strict=True)
    return next((at for at, (there, parent) in enumerate(places) if parent == node and there == token), -1)


def deepest(tree: Tree) -> int:
    return max(depths(tree), default=0)
