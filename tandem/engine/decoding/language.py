"""The cut of what is out of a mask's language before it is verified (ENG-086)."""

from __future__ import annotations

from tandem.engine.verbs import EMPTY_TREE, Mask, Tree

__all__ = ["allowed"]


def allowed(tree: Tree, mask: Mask | None) -> Tree:
    """`tree` without what the mask's language forbids and what hangs on it (ENG-086)."""
    if mask is None or not tree.tokens:
        return tree
    paths: dict[int, tuple[int, ...]] = {-1: ()}
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        if parent in paths and mask.allows(paths[parent], token):
            paths[node] = (*paths[parent], token)
    del paths[-1]
    if len(paths) == len(tree.tokens):
        return tree
    place = {node: at for at, node in enumerate(paths)} | {-1: -1}
    if not paths:
        return EMPTY_TREE
    return Tree(
        tuple(tree.tokens[node] for node in paths),
        tuple(place[tree.parents[node]] for node in paths),
        tuple(tree.scores[node] for node in paths) if tree.scores else (),
        tuple(tree.sources[node] for node in paths) if tree.sources else (),
    )
