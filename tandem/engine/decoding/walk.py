"""The one walk over verified rows, for all models (ENG-059)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.penalties import History
from tandem.engine.decoding.rejection import proposed_at
from tandem.engine.decoding.sampler import sample
from tandem.engine.decoding.sequence import Rows
from tandem.engine.drafting.drafter import Drawn
from tandem.engine.verbs import SamplingRules, TokenLogprob, Tree

__all__ = ["Walked", "walk"]


_NO_CHILDREN: Final[Mapping[tuple[int, int], int]] = {}


@dataclass(frozen=True, slots=True)
class Walked:
    """The tokens a walk took, and the nodes of the tree that it went into: one fewer, the last token has no row."""

    ids: tuple[int, ...]
    nodes: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]


def walk(rows: Rows, rules: SamplingRules, history: History, noise: Noise, drawn: Drawn | None = None) -> Walked:
    """From the root on take the target's token of each row and step to the child that carries it, up to an end id.

    The tokens are added to `history` as they are taken, so that penalties, n-grams and noise of every row are those of
    its own path, as in plain decode (ENG-081, ENG-067). A fault leaves it as it was. `drawn` says of a tree
    that it is a chain a drafter drew.
    """
    children = _children(rows.tree) if rows.tree.tokens else _NO_CHILDREN
    before = len(history)
    ids: list[int] = []
    nodes: list[int] = []
    logprobs: list[TokenLogprob] = []
    node: int | None = -1
    try:
        while node is not None:
            row, place = rows.at(node), rows.position + len(ids)
            proposed = proposed_at(drawn, node + 1, row.shape[0])  # the child of a chain's node is the next one
            token, logprob = sample(row, rules, history, noise, position=place, path=ids, proposed=proposed)
            history.extend((token,))
            ids.append(token)
            if logprob is not None:
                logprobs.append(logprob)
            node = None if token in rules.end_ids else children.get((node, token))
            if node is not None:
                nodes.append(node)
    except Exception:
        history.cut(before)
        raise
    return Walked(tuple(ids), tuple(nodes), tuple(logprobs))


def _children(tree: Tree) -> Mapping[tuple[int, int], int]:
    """Each node by its parent and its token."""
    return {pair: node for node, pair in enumerate(zip(tree.parents, tree.tokens, strict=True))}
