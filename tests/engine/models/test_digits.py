"""Matrices in 8 bits over oneDNN's integers: exact, in oneDNN's own memory, and only where that works."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tandem.engine.checkpoints.rows import Held
from tandem.engine.models import digits
from tandem.engine.models.digits import ROWS, DigitMatrix
from tandem.engine.models.formats import bytes_of, matrix, table
from tandem.engine.models.matrix import Matrix
from tandem.engine.models.packed import BOUND, Int8Matrix
from tandem.engine.native import native

SHAPES = ((64, 64), (192, 576), (576, 128), (1024, 320))
served = pytest.mark.skipif(not digits._packs(64, 64), reason="oneDNN's integer kernels do not serve this CPU")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@served
@pytest.mark.spec("ENG-021", "ENG-028")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_weights_are_those_of_the_other_int8_and_the_product_is_exact(shape: tuple[int, int]) -> None:
    weight, bias = drawn(*shape), drawn(shape[0], seed=1)
    ours, other = DigitMatrix(weight, bias), Int8Matrix(weight)
    assert ours.shape == shape
    assert torch.equal(ours.dequantised, other.dequantised)
    ids = torch.tensor([3, 3, shape[0] - 1, 0])
    assert torch.equal(ours.take(ids), other.take(ids))
    x = drawn(ROWS, shape[1], seed=2) * drawn(ROWS, 1, seed=3).exp()  # rows of all sizes
    x[1] = 0
    x[2, 0] = 1000  # a feature that towers above the others
    expected = x.double() @ ours.dequantised.double().T + bias
    near = x.abs().amax(dim=1, keepdim=True) * ours.dequantised.abs().sum(dim=1)
    assert bool(((ours(x) - expected).abs() <= 2.0**-20 * (near + bias.abs())).all())


@served
@pytest.mark.spec("ENG-028")
@pytest.mark.parametrize("shape", SHAPES)
def test_more_rows_than_are_worth_digits_are_within_the_bound(shape: tuple[int, int]) -> None:
    ours, x = DigitMatrix(drawn(*shape)), drawn(ROWS + 1, shape[1], seed=2)
    size = x.abs() @ ours.dequantised.abs().T
    assert bool(((ours(x).float() - x @ ours.dequantised.T).abs() <= 2 * BOUND * size).all())


@served
@pytest.mark.spec("ENG-027")
def test_a_row_has_the_same_bits_alone_and_among_others() -> None:
    ours, x = DigitMatrix(drawn(1024, 320)), drawn(ROWS, 320, seed=3)
    alone = torch.cat([ours(row[None]) for row in x])
    for rows in (2, 3, 5, 8, 16, 31, 32, 33, 100, ROWS):
        assert torch.equal(ours(x[:rows]), alone[:rows])
    assert torch.equal(ours(x[7:12]), alone[7:12])


@served
def test_a_matrix_in_several_parts_is_the_same_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x, ids = drawn(320, 128), drawn(ROWS + 1, 128, seed=1), torch.tensor([319, 0, 128, 127, 300])
    whole = DigitMatrix(weight)
    monkeypatch.setattr(digits, "_PART_BYTES", 128 * 128)
    parts = DigitMatrix(Held(weight))
    assert torch.equal(parts.take(ids), whole.take(ids))
    assert torch.equal(parts.dequantised, whole.dequantised)
    assert torch.equal(parts(x[:5]), whole(x[:5]))
    assert torch.equal(parts(x), whole(x))


@pytest.mark.spec("ENG-016", "ENG-031")
@pytest.mark.parametrize("served", [True, False])
def test_it_keeps_large_matrices_where_the_processor_serves_them(served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not served:
        monkeypatch.setattr(digits, "_packs", lambda rows, columns: False)
    form = DigitMatrix if served and digits._packs(256, 1024) else Int8Matrix
    for made in (matrix(drawn(1024, 1024), None, "int8"), table(drawn(1024, 1024), None, "int4")):
        assert type(made) is form
        assert made.format == "int8"
        assert made.nbytes == bytes_of((1024, 1024), "int8", layer=True)
    few = DigitMatrix if served and native() is not None and digits._packs(256, 1024) else Int8Matrix
    assert type(matrix(drawn(512, 1024), None, "int8")) is few, "too small to be worth it, but for our own product"
    assert type(matrix(drawn(1024, 1056), None, "int8")) is Int8Matrix, "no whole blocks"


@pytest.mark.parametrize("form", [Int8Matrix, pytest.param(DigitMatrix, marks=served)])
def test_a_number_that_is_none_stays_one(form: Callable[[Tensor], Matrix]) -> None:
    x = drawn(3, 64, seed=1)
    x[1, 5] = torch.nan
    y = form(drawn(64, 64))(x)
    assert bool(y[1].isnan().all())
    assert bool(y[[0, 2]].isfinite().all())
