"""Decode attention over a cache with the rows of a tree at its end."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tandem.engine.kernels.attention import decode_attention, length_class
from tandem.engine.kernels.trees import chain
from tests.engine.kernels import oracle
from tests.engine.kernels.running import Way, close
from tests.engine.kernels.samples import parents_of

TREE = parents_of(-1, 0, 0, 1, 1, 2, 3, 3, 6, -1, 9)


def inputs(
    rows: int, base: int, *, heads: int = 6, dtype: torch.dtype = torch.float32, room: int = 600
) -> tuple[Tensor, ...]:
    torch.manual_seed(rows + base)
    q = torch.randn(rows, heads, 16)
    cache = torch.randn(2, 2, room, 16)
    # What lies behind the end is scratch and must not be read into a sum.
    cache[:, :, base + rows :] = torch.nan
    return q.to(dtype), cache[0].to(dtype), cache[1].to(dtype), torch.tensor(base, dtype=torch.int32)


@pytest.mark.spec("ENG-008", "ENG-028")
@pytest.mark.parametrize("base", [0, 1, 63, 300])
def test_one_row(way: Way, base: int) -> None:
    way.agrees("decode_attention", (*inputs(1, base), chain(1)), oracle.attention, 1e-5)


@pytest.mark.spec("ENG-028", "ENG-057")
@pytest.mark.parametrize("base", [0, 250])
def test_a_tree(way: Way, base: int) -> None:
    way.agrees("decode_attention", (*inputs(len(TREE), base), TREE, 512), oracle.attention, 1e-5)


@pytest.mark.spec("ENG-028", "ENG-057")
def test_the_widest_chain(way: Way) -> None:
    way.agrees("decode_attention", (*inputs(32, 20, heads=2), chain(32), 256), oracle.attention, 1e-5)


@pytest.mark.spec("ENG-028")
def test_in_two_bytes(way: Way) -> None:
    args = inputs(3, 40, dtype=way.narrow)
    assert way.agrees("decode_attention", (*args, chain(3), 256), oracle.attention, 1e-2).dtype == way.narrow


@pytest.mark.spec("ENG-028", "ENG-029")
def test_the_length_class_and_not_the_length_says_how_a_sequence_is_cut(kernel: Way) -> None:
    """Any class that holds the rows gives the values; one class gives the same bits, run after run."""
    q, keys, values, base = inputs(2, 200)
    args = (q, keys, values, base, chain(2))
    twin = decode_attention(*args)
    for limit in (256, 1024):
        one, other = (kernel.run("decode_attention", *args, limit=limit) for _ in range(2))
        assert close(one, twin, 1e-5)
        assert torch.equal(one, other)
    assert [length_class(rows) for rows in (1, 256, 257, 5000)] == [256, 256, 512, 8192]
