"""Trees of rows: who sees whom, and where climbing leads."""

from __future__ import annotations

import torch
from hypothesis import given
from torch import Tensor

from tandem.engine.kernels.trees import chain, climb, lineage, seen
from tests.engine.kernels.samples import parents_of, trees


def test_a_chain() -> None:
    parents = chain(4)
    assert parents.tolist() == [-1, 0, 1, 2]
    assert torch.equal(seen(parents), torch.ones(4, 4).tril().bool())
    assert climb(parents, 3).tolist() == [[-1, 0, 1, 2], [-2, -1, 0, 1], [-3, -2, -1, 0]]
    assert lineage(parents, 2) == [0, 1, 2]


def test_a_tree_of_two_roots() -> None:
    parents = parents_of(-1, 0, 0, -1)
    assert lineage(parents, 2) == [0, 2]
    assert seen(parents).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    assert climb(parents, 2).tolist() == [[-1, 0, 0, -1], [-2, -1, -1, -2]]
    assert climb(parents, 0).shape == (0, 4)


@given(trees())
def test_a_row_sees_its_lineage(parents: Tensor) -> None:
    for node, row in enumerate(seen(parents)):
        assert row.nonzero()[:, 0].tolist() == lineage(parents, node)
