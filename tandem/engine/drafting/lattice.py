"""From a block of guesses to a tree: the best path through a lattice, and its runners-up (ENG-054).

A slot of the block has a few candidates, each with a log-probability of its own; a bigram scorer says how well each
follows each of the slot before. Together they make the probability of a candidate behind another, and a path's is the
product. The best path is the spine (Viterbi, 1967); beside it stand the likeliest nodes that leave it.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tandem.engine.drafting.tree import Trie
from tandem.engine.verbs import Tree

__all__ = ["FLOOR", "Lattice", "grown", "lattice_of", "spine"]

FLOOR = 0.02
"""Nodes that the walk reaches more rarely are not worth a row."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """S slots of C candidates."""

    ids: list[list[int]]  # (S, C)
    behind: list[list[list[float]]]  # (S, C before, C): log-probabilities; of the first slot (1, C)


def lattice_of(ids: Tensor, own: Tensor, joins: list[Tensor]) -> Lattice:
    """Of candidates `ids` (S, C) with log-probabilities `own` (S, C), and what the scorer says of each pair: S tensors
    (C before, C), the first (1, C).
    """
    mass = own.logsumexp(dim=1)  # what the candidates have of all tokens; the pair's score only shares it out
    behind = [
        (torch.log_softmax(mine + join, dim=1) + all_of).tolist()
        for mine, join, all_of in zip(own, joins, mass, strict=True)
    ]
    return Lattice(ids.tolist(), behind)


def spine(lattice: Lattice) -> tuple[int, ...]:
    """The candidate of each slot on the best path from the first to the last."""
    best, back = [0.0], list[list[int]]()
    for behind in lattice.behind:
        reached = [[before + row[at] for before, row in zip(best, behind, strict=True)] for at in range(len(behind[0]))]
        back.append([max(range(len(column)), key=column.__getitem__) for column in reached])
        best = [max(column) for column in reached]
    at = max(range(len(best)), key=best.__getitem__)
    path = list[int]()
    for choices in reversed(back):
        path.append(at)
        at = choices[at]
    return tuple(reversed(path))


def grown(lattice: Lattice, nodes: int, source: str) -> Tree:
    """The spine down to `FLOOR`, and the likeliest other nodes, at most `nodes` in all."""
    trie, front = Trie(), list[tuple[float, int, int, int, int]]()  # -log reach, serial, parent, slot, candidate
    serial, parent, reach, before = 0, -1, 0.0, 0

    def offer(parent: int, slot: int, before: int, reach: float, without: int | None = None) -> None:
        nonlocal serial
        if slot < len(lattice.behind):
            for at, more in enumerate(lattice.behind[slot][before]):
                if at != without and reach + more >= math.log(FLOOR):
                    heapq.heappush(front, (-(reach + more), serial, parent, slot, at))
                    serial += 1

    for slot, at in enumerate(spine(lattice)):
        offer(parent, slot, before, reach, without=at)
        reach, before = reach + lattice.behind[slot][before][at], at
        if reach < math.log(FLOOR) or len(trie) == nodes:
            break
        parent = trie.add(parent, lattice.ids[slot][at], math.exp(reach), source)
    while front and len(trie) < nodes:
        less, _, parent, slot, at = heapq.heappop(front)
        node = trie.add(parent, lattice.ids[slot][at], math.exp(-less), source)
        offer(node, slot + 1, at, -less)
    return trie.tree()
