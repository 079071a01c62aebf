"""Steps number by number: values, and where they are rounded."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tandem.engine.kernels.pointwise import delta_gates, gated_silu
from tests.engine.kernels.running import Way, close


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def gates_by_definition(projected: Tensor, decay: Tensor, step_bias: Tensor) -> tuple[Tensor, Tensor]:
    heads = decay.shape[0]
    return decay * torch.log1p(torch.exp(projected[:, heads:] + step_bias)), 1 / (1 + torch.exp(-projected[:, :heads]))


@pytest.mark.spec("ENG-007", "ENG-028")
@pytest.mark.parametrize("count", [1, 5])
def test_gates(way: Way, count: int) -> None:
    decay, step_bias = -rows(6, seed=1).exp(), rows(6, seed=2)
    way.agrees("delta_gates", (4 * rows(count, 12), decay, step_bias), gates_by_definition, 1e-6)


@pytest.mark.spec("ENG-007", "ENG-028")
def test_what_is_hardly_forgotten_keeps_its_digits(way: Way) -> None:
    """A gate of a millionth is taken a hundred thousand times over a long text."""
    at = torch.tensor([[0.0, 0.0, 0.0, -5.0, -12.0, 30.0]])
    g, _ = way.run("delta_gates", at, -torch.ones(3), torch.zeros(3))
    exact = -torch.log1p(torch.exp(at[:, 3:].double()))
    assert ((g.double() - exact) / exact).abs().max() < 1e-6


@pytest.mark.spec("ENG-008", "ENG-028")
def test_rates_keep_their_type_and_decays_are_in_fp32(way: Way) -> None:
    g, beta = way.run("delta_gates", rows(2, 8).bfloat16(), -torch.ones(4), torch.zeros(4))
    assert (g.dtype, beta.dtype) == (torch.float32, torch.bfloat16)


@pytest.mark.spec("ENG-008", "ENG-028")
@pytest.mark.parametrize(("count", "inner"), [(1, 40), (3, 1100)])
def test_gated_silu(way: Way, count: int, inner: int) -> None:
    def by_definition(projected: Tensor) -> Tensor:
        gate, up = projected[:, :inner], projected[:, inner:]
        return gate / (1 + torch.exp(-gate)) * up

    way.agrees("gated_silu", (rows(count, 2 * inner),), by_definition, 1e-6)


@pytest.mark.spec("ENG-008")
def test_gated_silu_rounds_after_each_step(way: Way) -> None:
    x = rows(4, 64).to(way.narrow)
    gate, up = x.chunk(2, dim=-1)
    expected = functional.silu(gate) * up
    assert torch.equal(gated_silu(x), expected)
    assert close(way.run("gated_silu", x), expected, 1e-2)


@pytest.mark.spec("ENG-027")
def test_a_row_has_the_same_bits_alone_and_among_others(kernel: Way) -> None:
    x, decay = rows(32, 12), -rows(6, seed=1).exp()
    g, beta = kernel.run("delta_gates", x, decay, decay)
    one, other = kernel.run("delta_gates", x[7:8], decay, decay)
    assert torch.equal(one, g[7:8])
    assert torch.equal(other, beta[7:8])
    assert torch.equal(kernel.run("gated_silu", x[7:8]), kernel.run("gated_silu", x)[7:8])


def test_the_twins_take_no_rows() -> None:
    assert delta_gates(torch.empty(0, 4), torch.ones(2), torch.ones(2))[0].shape == (0, 2)
    assert gated_silu(torch.empty(0, 4)).shape == (0, 2)
