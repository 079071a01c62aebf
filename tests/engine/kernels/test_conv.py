"""The causal convolution: of a chunk, of a tree, and the tail that is kept of it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from tandem.engine.kernels.conv import causal_conv, conv_commit, conv_verify
from tandem.engine.kernels.trees import lineage
from tests.engine.kernels import oracle
from tests.engine.kernels.running import Way
from tests.engine.kernels.samples import parents_of, trees

TREE = parents_of(-1, 0, 0, 1, 1, 2, 3, 3, 6, -1, 9)


def inputs(rows: int, channels: int = 64, width: int = 4, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    torch.manual_seed(rows)
    sizes = ((rows, channels), (width - 1, channels), (channels, width))
    x, tail, weight = (torch.randn(size).to(dtype) for size in sizes)
    return x, tail, weight


@pytest.mark.spec("ENG-007", "ENG-028")
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 40])
def test_a_chunk(way: Way, rows: int) -> None:
    x, tail, weight = inputs(rows, channels=40)
    way.agrees("causal_conv", (x, tail, weight), oracle.conv, 1e-6)


@pytest.mark.spec("ENG-028")
def test_a_chunk_in_bf16(way: Way) -> None:
    args = inputs(9, dtype=torch.bfloat16)
    out, tail = way.agrees("causal_conv", args, oracle.conv, 1e-2)
    assert out.dtype == tail.dtype == torch.bfloat16
    assert torch.equal(tail, args[0][-3:])


@pytest.mark.spec("ENG-028")
def test_columns_of_the_weight_may_be_apart(way: Way) -> None:
    x, tail, weight = inputs(5)
    way.agrees("causal_conv", (x, tail, weight.t().contiguous().t()), oracle.conv, 1e-6)


@pytest.mark.spec("ENG-028", "ENG-057")
def test_a_tree(way: Way) -> None:
    way.agrees("conv_verify", (*inputs(len(TREE)), TREE), oracle.conv_tree, 1e-6)


@pytest.mark.spec("ENG-028", "ENG-058")
@pytest.mark.parametrize("path", [[], [0], [0, 2, -1], [0, 1, 3, 6, 8, -1, -1]])
def test_the_tail_of_a_path(way: Way, path: list[int]) -> None:
    x, tail, weight = inputs(len(TREE))
    kept = way.run("conv_commit", tail, x, torch.tensor(path, dtype=torch.int32))
    rows = [row for row in path if row >= 0]
    assert torch.equal(kept, causal_conv(x[rows], tail, weight)[1])


def test_a_kernel_writes_a_tail_in_place(kernel: Way) -> None:
    x, tail, _ = inputs(len(TREE))
    path, place = torch.tensor([0, 1]), tail.to(kernel.device).clone()
    kernel.function("conv_commit")(place, x.to(kernel.device), path.to(kernel.device), new=place)
    assert torch.equal(place.cpu(), conv_commit(tail, x, path))


@given(trees())
@settings(max_examples=25)
@pytest.mark.spec("ENG-057")
def test_every_node_has_the_bits_of_a_plain_run_down_its_path(parents: Tensor) -> None:
    x, tail, weight = inputs(len(parents), channels=32)
    out = conv_verify(x, tail, weight, parents)
    for node in range(len(parents)):
        assert torch.equal(out[node], causal_conv(x[lineage(parents, node)], tail, weight)[0][-1])


@pytest.mark.spec("ENG-035")
def test_a_cut_changes_no_bits(way: Way) -> None:
    x, tail, weight = inputs(40)
    whole, end = way.run("causal_conv", x, tail, weight)
    first, middle = way.run("causal_conv", x[:33], tail, weight)
    rest, after = way.run("causal_conv", x[33:], middle, weight)
    assert torch.equal(torch.cat((first, rest)), whole)
    assert torch.equal(after, end)
