"""The matrix interface."""

from __future__ import annotations

import pytest
import torch

from tandem.engine.models.matrix import DenseMatrix


@pytest.mark.spec("ENG-021")
@pytest.mark.parametrize("bias", [True, False])
def test_dense_matrix_has_shape_bytes_and_a_product_for_any_rows(bias: bool) -> None:
    weight = torch.randn(6, 4)
    offset = torch.randn(6) if bias else None
    matrix = DenseMatrix(weight, offset)
    assert matrix.shape == (6, 4)
    assert matrix.nbytes == 6 * 4 * 4 + (6 * 4 if bias else 0)
    for rows in (1, 2, 17):
        x = torch.randn(rows, 4)
        expected = x @ weight.T + (offset if offset is not None else 0)
        assert torch.allclose(matrix(x), expected, atol=1e-6)


def test_stacked_matrix_gives_the_outputs_side_by_side() -> None:
    parts = [(torch.randn(n, 4), torch.randn(n)) for n in (2, 3)]
    x = torch.randn(5, 4)
    stacked = DenseMatrix.stacked([*parts])
    assert stacked.shape == (5, 4)
    assert torch.allclose(stacked(x), torch.cat([x @ w.T + b for w, b in parts], dim=1), atol=1e-6)


def test_stacking_takes_biases_on_every_part_or_on_none() -> None:
    with pytest.raises(ValueError, match="bias"):
        DenseMatrix.stacked([(torch.zeros(2, 4), None), (torch.zeros(2, 4), torch.zeros(2))])
