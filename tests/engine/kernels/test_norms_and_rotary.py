"""Norms and rotary positions: values, rounding points, and the reference's own answers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tandem.engine.kernels.norms import gated_rms_norm, rms_norm
from tandem.engine.kernels.rotary import axes_of_pairs, rotary, rotary_table
from tests.engine.kernels import oracle
from tests.engine.kernels.running import Way

EPS = 1e-6
DTYPES = [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)]
"""The interpreter's bf16 is within its bound, though it cuts where it should round."""


def rows(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.spec("ENG-008", "ENG-028")
@pytest.mark.parametrize(("dtype", "bound"), DTYPES)
def test_rms_norm(way: Way, dtype: torch.dtype, bound: float) -> None:
    x, weight = rows(3, 2, 80, dtype=dtype), 1 + rows(80, seed=1)
    assert way.agrees("rms_norm", (x, weight, EPS), oracle.norm, bound).dtype == dtype


@pytest.mark.spec("ENG-008", "ENG-028")
@pytest.mark.parametrize(("dtype", "bound"), DTYPES)
def test_gated_rms_norm(way: Way, dtype: torch.dtype, bound: float) -> None:
    x, gate, weight = rows(5, 48, dtype=dtype), rows(5, 48, seed=1, dtype=dtype), rows(48, seed=2, dtype=dtype)
    assert way.agrees("gated_rms_norm", (x, gate, weight, EPS), oracle.gated_norm, bound).dtype == dtype


@pytest.mark.spec("ENG-008")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_have_the_bits_of_the_reference(dtype: torch.dtype) -> None:
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5RMSNorm, Qwen3_5RMSNormGated  # takes seconds

    x, gate = rows(7, 64, dtype=dtype), rows(7, 64, seed=1, dtype=dtype)
    plain, gated = Qwen3_5RMSNorm(64, EPS), Qwen3_5RMSNormGated(64, EPS)
    with torch.no_grad():
        plain.weight.copy_(rows(64, seed=2))
        gated.weight.copy_(rows(64, seed=3))
        plain, gated = plain.to(dtype), gated.to(dtype)
        assert torch.equal(rms_norm(x, 1 + plain.weight.float(), EPS), plain(x))
        assert torch.equal(gated_rms_norm(x, gate, gated.weight, EPS), gated(x, gate))


@pytest.mark.spec("ENG-008")
def test_the_product_with_the_weight_is_rounded_before_the_gate(way: Way) -> None:
    """Where it is kept in fp32, some answers are others; a kernel may part from the twin in a last bit, and rarely."""
    shapes = [(64, 128), (64, 128), (128,)]
    x, gate, weight = (rows(*shape, seed=seed, dtype=way.narrow) for seed, shape in enumerate(shapes))
    ours = way.run("gated_rms_norm", x, gate, weight, EPS)
    normed = rms_norm(x, torch.ones(128), EPS)
    kept = (normed.float() * weight.float() * torch.nn.functional.silu(gate.float())).to(way.narrow)
    twin = gated_rms_norm(x, gate, weight, EPS)
    assert (twin != kept).float().mean() > 0.1
    assert (ours != twin).float().mean() < 0.01


@pytest.mark.spec("ENG-008", "ENG-028")
@pytest.mark.parametrize(("size", "half"), [(16, 8), (40, 6)])
@pytest.mark.parametrize(("dtype", "bound"), DTYPES)
def test_rotary(way: Way, size: int, half: int, dtype: torch.dtype, bound: float) -> None:
    x, table = rows(3, 2, size, dtype=dtype), rotary_table(torch.tensor([0, 5, 9]), rows(half, seed=1))
    turned = way.agrees("rotary", (x, *table), oracle.rotate, bound)
    assert turned.dtype == dtype
    assert torch.equal(turned[..., 2 * half :], x[..., 2 * half :])


@pytest.mark.spec("ENG-008")
def test_rotary_has_the_bits_of_the_reference_on_three_axes() -> None:
    from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextRotaryEmbedding, apply_rotary_pos_emb

    parameters = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25, "mrope_section": [3, 3, 2]}
    config = Qwen3_5TextConfig(head_dim=64, num_attention_heads=2, hidden_size=128, rope_parameters=parameters)
    embedding = Qwen3_5TextRotaryEmbedding(config)
    positions = torch.stack((torch.arange(9), torch.arange(9) // 2, torch.arange(9) % 3))
    q = rows(9, 2, 64)
    theirs, _ = apply_rotary_pos_emb(q[None], q[None], *embedding(q, positions[:, None]), unsqueeze_dim=2)
    frequencies = 1.0 / (1e4 ** (torch.arange(0, 16, 2).float() / 16))
    ours = rotary(q, *rotary_table(positions, frequencies, axes_of_pairs(8, (3, 3, 2))))
    assert torch.allclose(ours, theirs[0], rtol=0, atol=1e-6)
    text = torch.arange(9)
    for one, other in zip(
        rotary_table(text, frequencies), rotary_table(text.expand(3, -1), frequencies, axes_of_pairs(8, (3, 3, 2))),
        strict=True,
    ):  # fmt: skip
        assert torch.equal(one, other)


@pytest.mark.spec("ENG-027")
@pytest.mark.parametrize("op", ["rms_norm", "gated_rms_norm"])
def test_a_row_has_the_same_bits_alone(kernel: Way, op: str) -> None:
    x, weight = rows(5, 48), rows(48, seed=2)
    extra = (rows(5, 48, seed=1),) if op == "gated_rms_norm" else ()
    together = kernel.run(op, x, *extra, weight, EPS)
    for row in range(5):
        at = slice(row, row + 1)
        assert torch.equal(kernel.run(op, x[at], *(each[at] for each in extra), weight, EPS), together[at])
