"""What a chunk multiplies by: the twins' values, rounded once."""

from __future__ import annotations

import pytest
import torch

from tandem.engine.kernels.linear import fp8_values, nvfp4_values
from tandem.engine.models.decoded import fp8_decoded, nvfp4_decoded, pairs

CPU = torch.device("cpu")
TYPES = [torch.bfloat16, torch.float32]


def e4m3(*shape: int) -> torch.Tensor:
    """Every code that is a number."""
    raw = torch.arange(torch.Size(shape).numel(), dtype=torch.int64).mul_(7).remainder_(256).to(torch.uint8).view(shape)
    return torch.where(raw & 0x7F == 0x7F, raw ^ 1, raw).view(torch.float8_e4m3fn)


@pytest.mark.spec("ENG-023")
@pytest.mark.parametrize("dtype", TYPES)
def test_nvfp4_is_exact(dtype: torch.dtype) -> None:
    codes = torch.arange(256 * 8, dtype=torch.int64).remainder_(256).to(torch.uint8).view(256, 8)
    scales = e4m3(256, 1).abs()
    found = nvfp4_decoded(codes, scales, pairs(dtype, CPU), dtype)
    assert found.dtype == dtype
    assert torch.equal(found.float(), nvfp4_values(codes, scales))


@pytest.mark.spec("ENG-022")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("of_scales", TYPES)
@pytest.mark.parametrize("shape", [(256, 128), (200, 256), (128, 144)])
def test_fp8_is_rounded_once(dtype: torch.dtype, of_scales: torch.dtype, shape: tuple[int, int]) -> None:
    blocks = -(-shape[0] // 128), -(-shape[1] // 128)
    codes, scales = e4m3(*shape), torch.rand(blocks, generator=torch.Generator().manual_seed(0)).to(of_scales)
    found = fp8_decoded(codes, scales, dtype)
    assert found.dtype == dtype
    assert torch.equal(found, fp8_values(codes, scales).to(dtype))
