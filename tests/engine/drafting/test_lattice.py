"""Spine and branches of a lattice, against all its paths."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.drafting.lattice import FLOOR, Lattice, grown, lattice_of, spine
from tandem.engine.drafting.tree import NODES, depths, sound


def made(seed: int, slots: int, count: int, sharp: float = 1.0) -> Lattice:
    draw = torch.Generator().manual_seed(seed)
    vocab = 50
    logits = sharp * torch.randn(slots, vocab, generator=draw)
    best, ids = logits.topk(count, dim=1)
    own = best - logits.logsumexp(dim=1, keepdim=True)
    joins = [sharp * torch.randn(count if at else 1, count, generator=draw) for at in range(slots)]
    return lattice_of(ids, own, joins)


def probability(lattice: Lattice, path: tuple[int, ...]) -> float:
    before, total = 0, 0.0
    for slot, at in enumerate(path):
        total += lattice.behind[slot][before][at]
        before = at
    return math.exp(total)


sizes = st.tuples(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 4))


@pytest.mark.spec("ENG-054")
@given(sizes)
def test_the_spine_is_the_best_of_all_paths(size: tuple[int, int, int]) -> None:
    seed, slots, count = size
    lattice = made(seed, slots, count)
    paths = itertools.product(range(count), repeat=slots)
    assert probability(lattice, spine(lattice)) == pytest.approx(max(probability(lattice, path) for path in paths))


@pytest.mark.spec("ENG-054", "ENG-055")
@given(sizes, st.integers(1, NODES))
def test_beside_the_spine_stand_the_likeliest_nodes(size: tuple[int, int, int], nodes: int) -> None:
    seed, slots, count = size
    lattice = made(seed, slots, count, sharp=2.0)
    tree = grown(lattice, nodes, "block")
    assert sound(tree, 50, nodes, slots) == (tree, 0)
    trunk, whole = spine(lattice), dict[tuple[int, ...], float]()
    for length in range(1, slots + 1):
        for path in itertools.product(range(count), repeat=length):
            if (likely := probability(lattice, path)) >= FLOOR:
                whole[path] = likely
    spined = [trunk[:length] for length in range(1, slots + 1) if trunk[:length] in whole][:nodes]
    others = sorted((likely for path, likely in whole.items() if path not in spined), reverse=True)
    wanted = sorted([*(whole[path] for path in spined), *others[: nodes - len(spined)]])
    # Two candidates of a slot are two tokens, so nodes are as many as paths.
    assert sorted(tree.scores) == pytest.approx(wanted)
    assert (
        tree.tokens[: len(spined)] == tuple(lattice.ids[slot][at] for slot, at in enumerate(spined[-1]))
        if spined
        else True
    )
    assert max(depths(tree), default=0) <= slots


@pytest.mark.spec("ENG-054")
def test_a_bigram_turns_the_spine() -> None:
    """Slot by slot 1 and then 3 are likelier; but 4 follows 2, and nothing follows 1."""
    ids, own = torch.tensor([[1, 2], [3, 4]]), torch.log(torch.tensor([[0.5, 0.4], [0.5, 0.4]]))
    flat = [torch.zeros(1, 2), torch.zeros(2, 2)]
    assert spine(lattice_of(ids, own, flat)) == (0, 0)
    lattice = lattice_of(ids, own, [torch.zeros(1, 2), torch.tensor([[0.0, 0.0], [-5.0, 5.0]])])
    assert spine(lattice) == (1, 1)
    tree = grown(lattice, 31, "block")
    assert tree.tokens == (2, 4, 1, 3, 4)
    assert tree.scores == pytest.approx((0.4, 0.36, 0.5, 0.25, 0.2), abs=0.001)


def test_what_the_candidates_lack_is_nobodys() -> None:
    lattice = made(3, 3, 4)
    for slot in lattice.behind:
        for row in slot:
            assert sum(map(math.exp, row)) < 1
