"""Every format behind the matrix interface, against a plain product in fp32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tandem.engine.models import packed
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights, bytes_of, copies, default_for, matrix, stacked, table
from tandem.engine.models.matrix import DenseMatrix
from tandem.engine.models.packed import BOUND, INT4_ROWS, INT8_ROWS, Int4Matrix, Int8Matrix

SHAPES = ((192, 96), (64, 576), (128, 64), (48, 32))
"""(N, K); the last has no fast int4 layout for many rows."""
ROWS = (1, 2, 12, 13, 32, 33, 100)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def meaning(weight: Tensor, kind: CpuWeights) -> Tensor:
    """The plain twin: the numbers that a kind keeps of `weight`, in fp32."""
    match kind:
        case "fp32":
            return weight
        case "bf16":
            return weight.bfloat16().float()
        case "int8":
            return Int8Matrix(weight).dequantised
        case "int4":
            return Int4Matrix.dequantised(weight)


@pytest.mark.spec("ENG-021", "ENG-028")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", CPU_WEIGHTS)
def test_a_product_is_the_twins_within_the_bound(kind: CpuWeights, shape: tuple[int, int], bias: bool) -> None:
    weight, offset = drawn(*shape), drawn(shape[0], seed=1) if bias else None
    ours, plain = matrix(weight, offset, kind), meaning(weight, kind)
    assert ours.shape == shape
    assert ours.format == kind
    for rows in ROWS:
        x = drawn(rows, shape[1], seed=rows)
        expected = x @ plain.T + (0 if offset is None else offset)
        bound = 1e-5 if kind == "fp32" else BOUND * (x.abs() @ plain.abs().T + expected.abs()) + 2.0**-8 * bias
        y = ours(x)
        assert y.shape == (rows, shape[0])
        assert bool(((y.float() - expected).abs() <= bound).all())


@pytest.mark.spec("ENG-028")
def test_the_int4_fallback_gives_the_twins_product_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = drawn(128, 64), drawn(100, 64, seed=2)
    ours, plain = Int4Matrix(weight), Int4Matrix.dequantised(weight)
    for interleaves in (True, False):
        if interleaves and not packed._interleaves():
            continue
        monkeypatch.setattr(packed, "_interleaves", lambda value=interleaves: value)
        assert bool(((ours(x).float() - x @ plain.T).abs() <= BOUND * 2 * (x.abs() @ plain.abs().T)).all())


@pytest.mark.spec("ENG-027")
@pytest.mark.parametrize(("form", "most"), [(Int8Matrix, INT8_ROWS), (Int4Matrix, INT4_ROWS)])
def test_a_row_has_the_same_bits_alone_and_among_others(form: Callable[[Tensor], Any], most: int) -> None:
    ours, x = form(drawn(192, 576)), drawn(most, 576, seed=3)
    alone = torch.cat([ours(row[None]) for row in x])
    for rows in range(2, most + 1):
        assert torch.equal(ours(x[:rows]), alone[:rows])


@pytest.mark.spec("ENG-027", "ENG-028")
def test_a_kept_copy_multiplies_many_rows() -> None:
    weight, bias, x = drawn(192, 96), drawn(192, seed=1), drawn(70, 96, seed=3)
    ours, plain, meant = (
        Int4Matrix(weight, bias, keeps_copy=True),
        Int4Matrix(weight, bias),
        Int4Matrix.dequantised(weight),
    )
    assert torch.equal(ours(x[:INT4_ROWS]), torch.cat([plain(row[None]) for row in x[:INT4_ROWS]]))
    for rows in (INT4_ROWS + 1, 70):
        off = (ours(x[:rows]).float() - x[:rows] @ meant.T - bias).abs()
        assert bool((off <= BOUND * 2 * (x[:rows].abs() @ meant.abs().T + bias.abs())).all())
    assert (plain.copy_nbytes, ours.copy_nbytes) == (0, 2 * weight.numel())
    assert ours.nbytes == plain.nbytes, "what one row reads"
    assert copies([matrix(drawn(64, 96), None, "int4")]) == {"copies": 2 * 64 * 96}
    assert not Int4Matrix.may_keep_copy((4096, 4096))


@pytest.mark.spec("ENG-025")
@pytest.mark.parametrize("form", ["Q4_0", "Q4_1"])
def test_four_bit_blocks_keep_their_codes(form: str) -> None:
    codes = torch.randint(16, (64, 4, 32), generator=torch.Generator().manual_seed(0))
    codes[..., 0], codes[..., 1] = 0, 15
    scales = drawn(64, 4, 1, seed=1).half().float()
    lows = drawn(64, 4, 1, seed=2).half().float()
    if form == "Q4_1":
        scales = scales.abs()  # the format's own writer makes no other
    weight = codes * scales + lows if form == "Q4_1" else (codes - 8) * scales
    kept = Int4Matrix.dequantised(weight.view(64, 128)).view_as(weight)
    rounding = 2.0**-8 * (8 * scales.abs() + (lows + 8 * scales).abs() * (form == "Q4_1"))
    assert bool(((kept - weight).abs() <= rounding * 1.01).all()), "scale and zero are rounded to bf16, nothing else"


@pytest.mark.parametrize("form", [Int4Matrix, Int8Matrix])
def test_rows_of_zeros_stay_zeros(form: Callable[[Tensor], Any]) -> None:
    weight = drawn(64, 64)
    weight[3] = 0
    y = form(weight)(drawn(2, 64, seed=1))
    assert not y[:, 3].any()
    assert bool(y.isfinite().all())


@pytest.mark.spec("ENG-021")
@pytest.mark.parametrize("kind", CPU_WEIGHTS)
def test_a_table_gives_its_rows_in_fp32(kind: CpuWeights) -> None:
    weight, ids = drawn(50, 64), torch.tensor([3, 3, 49, 0])
    rows = table(weight, None, kind).take(ids)
    assert rows.dtype == torch.float32
    assert torch.equal(rows, meaning(weight, "int8" if kind == "int4" else kind)[ids])


@pytest.mark.parametrize("kind", CPU_WEIGHTS)
def test_a_shape_without_a_kernel_gets_a_wider_format(kind: CpuWeights) -> None:
    odd, tall = matrix(drawn(7, 33), None, kind), matrix(drawn(7, 64), None, kind)
    assert odd.format == ("fp32" if kind == "fp32" else "bf16")
    assert tall.format == ("int8" if kind == "int4" else kind)
    with pytest.raises(ValueError, match="kernel"):
        Int8Matrix(drawn(7, 33))
    with pytest.raises(ValueError, match="kernel"):
        Int4Matrix(drawn(7, 64))


@pytest.mark.spec("ENG-021", "ENG-031")
@pytest.mark.parametrize("kind", CPU_WEIGHTS)
def test_bytes_are_known_before_the_weights_are_read(kind: CpuWeights) -> None:
    weight = drawn(192, 96)
    made = matrix(weight, None, kind)
    assert made.nbytes + sum(copies([made]).values()) == bytes_of((192, 96), kind, layer=True)
    assert table(weight, None, kind).nbytes == bytes_of((192, 96), kind, layer=False)
    assert bytes_of((96,), kind, layer=True) == 4 * 96
    assert DenseMatrix(weight, drawn(192)).nbytes == 192 * 97 * 4


@pytest.mark.spec("ENG-016")
@pytest.mark.parametrize(
    ("formats", "kind"),
    [(("Q4_1", "Q4_1"), "int4"), (("Q4_0",), "int4"), (("Q4_1", "Q8_0"), "int8"), (("BF16",), "int8")],
)
def test_the_default_follows_the_file(formats: tuple[str, ...], kind: str) -> None:
    assert default_for(formats) == kind


def test_stacked_matrix_gives_the_outputs_side_by_side() -> None:
    parts = [(drawn(n, 4), drawn(n, seed=1)) for n in (2, 3)]
    x = drawn(5, 4, seed=2)
    side = stacked(parts, "fp32")
    assert side.shape == (5, 4)
    assert torch.allclose(side(x), torch.cat([x @ w.T + b for w, b in parts], dim=1), atol=1e-6)


def test_stacking_takes_biases_on_every_part_or_on_none() -> None:
    with pytest.raises(ValueError, match="bias"):
        stacked([(torch.zeros(2, 4), None), (torch.zeros(2, 4), torch.zeros(2))], "fp32")
