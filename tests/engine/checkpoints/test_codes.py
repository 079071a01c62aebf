"""FP8 blocks, FP8 rows and NVFP4: what codes stand for, against decoders in fp64 that are written here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from torch import Tensor

from tandem.engine.checkpoints.fp8 import Fp8Blocks, Fp8Rows, block_scales_shape, e4m3_values
from tandem.engine.checkpoints.nvfp4 import Nvfp4
from tandem.engine.checkpoints.weights import Coded

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def e4m3(codes: Tensor) -> Array:
    """A sign, four bits of exponent with bias 7, three of mantissa, as fp64; no infinities."""
    raw = codes.view(torch.uint8).numpy().astype(np.int64)
    sign, exponent, mantissa = np.where(raw & 0x80, -1.0, 1.0), raw >> 3 & 15, raw & 7
    small, large = mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * np.exp2(exponent - 7.0)
    values = sign * np.where(exponent == 0, small, large)
    return np.where(raw & 0x7F == 0x7F, np.nan, values)


def e2m1(codes: Array) -> Array:
    """A sign, two bits of exponent with bias 1, one of mantissa, as fp64."""
    sign, exponent, mantissa = np.where(codes & 8, -1.0, 1.0), codes >> 1 & 3, codes & 1
    values: Array = sign * np.where(exponent == 0, mantissa / 2, (1 + mantissa / 2) * np.exp2(exponent - 1.0))
    return values


def fp64(coded: Coded) -> Array:
    """The values of codes by the formulas of ENG-022 and ENG-023, one element at a time."""
    rows, columns = coded.shape
    n, k = np.indices((rows, columns))
    if isinstance(coded, Nvfp4):
        packed = coded.codes.numpy()[n, k // 2]
        codes = np.where(k % 2 == 0, packed & 15, packed >> 4)
        values: Array = e2m1(codes) * e4m3(coded.scales)[n, k // 16] * float(coded.scale)
        return values
    scales = coded.scales.double().numpy()
    values = e4m3(coded.codes) * (scales[n // 128, k // 128] if isinstance(coded, Fp8Blocks) else scales[n])
    return values


def bits(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def e4m3_bits(*shape: int, seed: int = 0) -> Tensor:
    """Every code but the two that are no number."""
    raw = bits(*shape, seed=seed)
    return torch.where(raw & 0x7F == 0x7F, raw ^ 1, raw).view(torch.float8_e4m3fn)


def blocks(rows: int, columns: int) -> Fp8Blocks:
    scales = torch.randn(block_scales_shape((rows, columns)), generator=torch.Generator().manual_seed(1))
    return Fp8Blocks(e4m3_bits(rows, columns), scales.to(torch.bfloat16))


def four_bits(rows: int, columns: int) -> Nvfp4:
    scale = torch.rand((), generator=torch.Generator().manual_seed(3)) * 0.01
    return Nvfp4(bits(rows, columns // 2), e4m3_bits(rows, columns // 16, seed=2), scale)


def by_row(rows: int, columns: int) -> Fp8Rows:
    return Fp8Rows(e4m3_bits(rows, columns), torch.rand(rows, generator=torch.Generator().manual_seed(4)))


@pytest.mark.spec("ENG-022")
def test_every_code_of_8_bits_has_its_value() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    numbers = codes[codes & 0x7F != 0x7F].view(torch.float8_e4m3fn)
    values = e4m3_values(numbers)
    assert np.array_equal(values.numpy(), e4m3(numbers))
    assert torch.equal(values, numbers.float())
    assert torch.equal(values.signbit(), numbers.float().signbit())
    assert e4m3_values(codes.view(torch.float8_e4m3fn)).isnan().sum() == 2, "the two that are no number stay none"


SHAPES = [(128, 128), (256, 384), (200, 300), (1, 16), (127, 144), (129, 272), (64, 32)]


@pytest.mark.spec("ENG-022")
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_fp8_blocks_decode_exactly(rows: int, columns: int) -> None:
    coded = blocks(rows, columns)
    values = coded.rows(0, rows)
    assert values.dtype == torch.float32
    assert np.array_equal(values.double().numpy(), fp64(coded)), "a product of 4 and 8 bits needs no rounding"


@pytest.mark.spec("ENG-022")
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_fp8_rows_are_rounded_once(rows: int, columns: int) -> None:
    coded = by_row(rows, columns)
    assert np.array_equal(coded.rows(0, rows).numpy(), fp64(coded).astype(np.float32))


@pytest.mark.spec("ENG-023")
@pytest.mark.parametrize(("rows", "columns"), [shape for shape in SHAPES if shape[1] % 16 == 0])
def test_nvfp4_decodes_exactly_up_to_one_rounding(rows: int, columns: int) -> None:
    coded = four_bits(rows, columns)
    values = coded.rows(0, rows)
    assert np.array_equal(values.numpy(), fp64(coded).astype(np.float32))
    assert np.array_equal(np.signbit(values.numpy()), np.signbit(fp64(coded))), "-0 is kept"


@pytest.mark.spec("ENG-023")
def test_the_low_half_of_a_byte_is_the_even_column() -> None:
    codes = torch.tensor([[0x21, 0x43, 0x65, 0x07, 0xA9, 0xCB, 0xED, 0x8F]], dtype=torch.uint8)
    coded = Nvfp4(codes, torch.ones(1, 1).to(torch.float8_e4m3fn), torch.tensor(1.0))
    expected = [0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6, -0.0]
    assert coded.rows(0, 1)[0].tolist() == expected


@pytest.mark.spec("ENG-022", "ENG-023")
@pytest.mark.parametrize("coded", [blocks(300, 144), by_row(300, 144), four_bits(300, 144)], ids=lambda c: c.format)
def test_rows_are_those_of_the_whole(coded: Coded) -> None:
    whole = coded.rows(0, 300)
    for start, stop in ((0, 64), (64, 192), (100, 101), (127, 129), (255, 300), (299, 300), (5, 5)):
        assert torch.equal(coded.rows(start, stop), whole[start:stop])


@pytest.mark.spec("ENG-022", "ENG-023")
@pytest.mark.parametrize("form", [Fp8Blocks, Fp8Rows, Nvfp4])
def test_encoding_takes_a_nearest_code(form: type[Fp8Blocks | Fp8Rows | Nvfp4]) -> None:
    weight = torch.randn(40, 160, generator=torch.Generator().manual_seed(5))
    weight[3] = 0
    coded = form.of(weight)
    values = coded.rows(0, 40)
    grid = torch.arange(256, dtype=torch.uint8)
    sizes = e2m1(grid[:16].numpy().astype(np.int64)) if isinstance(coded, Nvfp4) else e4m3(grid[grid & 0x7F != 0x7F])
    steps = np.ones((40, 160)) * fp64(replace(coded, codes=_ones(coded)))
    target = weight.double().numpy()[..., None]
    nearest = np.abs(sizes * steps[..., None] - target).min(axis=-1)
    assert (np.abs(values.double().numpy() - target[..., 0]) <= nearest + 1e-6).all()
    assert not values[3].any()
    assert torch.equal(form.of(values).rows(0, 40), values), "what is on the grid stays"


def _ones(coded: Coded) -> Tensor:
    """Codes that all stand for 1."""
    return torch.full_like(coded.codes, 0x22) if isinstance(coded, Nvfp4) else torch.ones_like(coded.codes)


def test_a_matrix_of_zeros_has_codes() -> None:
    for form in (Fp8Blocks, Fp8Rows, Nvfp4):
        assert not form.of(torch.zeros(16, 32)).rows(0, 16).any()
