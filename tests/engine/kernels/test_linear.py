"""Products with stored matrices: values, and the bits of a row alone and among others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tandem.engine.kernels.linear import fp8_values, nvfp4_values
from tests.engine.kernels import oracle
from tests.engine.kernels.running import Way

GRID = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def nvfp4(n: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(n + k)
    codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
    return codes, (torch.rand(n, k // 16) * 40).to(torch.float8_e4m3fn), torch.tensor(0.0137)


def fp8(n: int, k: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(n + k)
    scales = (0.01 + torch.rand((n + 127) // 128, (k + 127) // 128)).bfloat16()
    return (40 * torch.randn(n, k)).to(torch.float8_e4m3fn), scales


def matrix(op: str, n: int = 40, k: int = 1088) -> tuple[tuple[Any, ...], Tensor]:
    """The weights of `op`, and their values."""
    torch.manual_seed(0)
    if op == "nvfp4_linear":
        codes, scales, scale = nvfp4(n, k)
        return (codes, scales, scale), nvfp4_values(codes, scales).double() * scale.double()
    if op == "fp8_linear":
        codes, scales = fp8(n, k)
        return (codes, scales), fp8_values(codes, scales).double()
    if op == "head":
        weight = torch.randn(n, k).bfloat16()
        return (weight,), weight.double()
    codes, scales = torch.randn(n, k).to(torch.float8_e4m3fn), torch.rand(n)
    return (codes, scales), codes.double() * scales.double()[:, None]


KINDS = ["nvfp4_linear", "fp8_linear", "head", "head_fp8"]


def rows(count: int, k: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(count, k, generator=torch.Generator().manual_seed(count)).to(dtype)


@pytest.mark.spec("ENG-023")
def test_nvfp4_has_the_grid_of_e2m1_low_half_first() -> None:
    codes = torch.tensor([[low | (low + 8) << 4 for low in range(8)]], dtype=torch.uint8)
    values = nvfp4_values(codes, torch.tensor([[2.0]]).to(torch.float8_e4m3fn))[0]
    assert (values[0::2] / 2).tolist() == GRID
    assert (values[1::2] / 2).tolist() == [-each for each in GRID]


@pytest.mark.spec("ENG-023")
def test_every_code_times_every_scale_is_exact_in_bf16() -> None:
    scales = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn)[:, None]  # every one that is positive
    codes = torch.tensor([[low | (low + 8) << 4 for low in range(8)]], dtype=torch.uint8).expand(127, -1)
    values = nvfp4_values(codes, scales)
    assert torch.equal(values.bfloat16().float(), values)


@pytest.mark.spec("ENG-011", "ENG-022", "ENG-023", "ENG-028")
@pytest.mark.parametrize("op", KINDS)
@pytest.mark.parametrize(("count", "narrow", "bound"), [(1, True, 5e-3), (3, False, 1e-5)])
def test_a_product(way: Way, op: str, count: int, narrow: bool, bound: float) -> None:
    weights, values = matrix(op)
    dtype = way.narrow if narrow else torch.float32
    x = rows(count, values.shape[1], dtype)
    out = way.agrees(op.removesuffix("_fp8"), (x, *weights), lambda *_: oracle.linear(x, values), bound)
    assert out.dtype == (torch.float32 if op.startswith("head") else dtype)


@pytest.mark.spec("ENG-022", "ENG-028")
def test_blocks_that_are_not_full(way: Way) -> None:
    weights, values = matrix("fp8_linear", 192, 208)
    x = rows(2, 208, torch.float32)
    way.agrees("fp8_linear", (x, *weights), lambda *_: oracle.linear(x, values), 1e-5)


@pytest.mark.spec("ENG-027")
@pytest.mark.parametrize("op", KINDS)
def test_a_row_has_the_same_bits_alone_and_among_31_others(kernel: Way, op: str) -> None:
    weights, values = matrix(op)
    x, op = rows(32, values.shape[1], kernel.narrow), op.removesuffix("_fp8")
    together = kernel.run(op, x, *weights)
    for at in (slice(1), slice(7, 8), slice(31, 32), slice(2), slice(5, 22)):
        assert torch.equal(kernel.run(op, x[at], *weights), together[at])


@pytest.mark.spec("ENG-027")
def test_more_rows_than_the_tile_holds_are_refused(kernel: Way) -> None:
    weights, values = matrix("head")
    with pytest.raises(ValueError, match="33 rows"):
        kernel.run("head", rows(33, values.shape[1], torch.float32), *weights)
