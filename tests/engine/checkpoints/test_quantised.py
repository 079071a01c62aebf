"""Matrices in codes on disk: how parts become one tensor, and what is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tandem.engine.checkpoints.fp8 import Fp8Blocks, Fp8Rows
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.nvfp4 import Nvfp4
from tandem.engine.checkpoints.quantised import require_served_quantisation
from tandem.engine.checkpoints.safetensors import FP8, FP8_ROWS, NVFP4, SafetensorsWeights
from tandem.engine.errors import CheckpointError
from tests.tiny import build_llama

NAME = "layers.0.mlp.up_proj.weight"
ON_DISK = f"model.{NAME}"
SHAPE = (200, 304)
"""No multiples of a block, but whole groups of 16."""


def weight() -> Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(7))


def fp8() -> dict[str, Tensor]:
    coded = Fp8Blocks.of(weight())
    return {ON_DISK: coded.codes, f"{ON_DISK}_scale_inv": coded.scales}


def fp8_rows() -> dict[str, Tensor]:
    coded = Fp8Rows.of(weight())
    return {ON_DISK: coded.codes, f"{ON_DISK}_scale": coded.scales}


def modelopt() -> dict[str, Tensor]:
    coded = Nvfp4.of(weight())
    return {ON_DISK: coded.codes, f"{ON_DISK}_scale": coded.scales, f"{ON_DISK}_scale_2": coded.scale}


def compressed() -> dict[str, Tensor]:
    coded = Nvfp4.of(weight())
    return {
        f"{ON_DISK}_packed": coded.codes,
        f"{ON_DISK}_scale": coded.scales,
        f"{ON_DISK}_global_scale": (1 / coded.scale)[None],
    }


def written(directory: Path, tensors: dict[str, Tensor]) -> SafetensorsWeights:
    save_file(tensors, directory / "model.safetensors")
    return SafetensorsWeights(directory)


@pytest.mark.spec("ENG-020", "ENG-022", "ENG-023")
@pytest.mark.parametrize(
    ("tensors", "kind", "form"),
    [
        (fp8, FP8, Fp8Blocks),
        (fp8_rows, FP8_ROWS, Fp8Rows),
        (modelopt, NVFP4, Nvfp4),
        (compressed, NVFP4, Nvfp4),
    ],
)
def test_codes_and_scales_are_one_tensor(
    tmp_path: Path, tensors: Callable[[], dict[str, Tensor]], kind: str, form: type[Any]
) -> None:
    parts = tensors()
    weights = written(tmp_path, parts)
    assert list(weights.names()) == [NAME]
    stored = weights.stored()[NAME]
    assert (stored.format, stored.shape) == (kind, SHAPE)
    assert stored.nbytes == sum(part.nbytes for part in parts.values())
    coded = weights.coded(NAME)
    assert isinstance(coded, form)
    values = weights.tensor(NAME, SHAPE)
    expected = form.of(weight()).rows(0, SHAPE[0])
    assert values.dtype == torch.float32
    if tensors is compressed:  # one over one over a number is not that number
        assert torch.allclose(values, expected, rtol=1e-6, atol=0)
    else:
        assert torch.equal(values, expected)
    assert torch.equal(weights.rows(NAME, SHAPE, 100, 200), values[100:])
    assert torch.equal(weights.tensor(NAME, SHAPE, torch.bfloat16), values.bfloat16())
    with pytest.raises(
        CheckpointError, match=r"up_proj\.weight.* has shape \[200, 304\], the config asks for \[2, 2\]"
    ):
        weights.tensor(NAME, (2, 2))


@pytest.mark.spec("ENG-020", "ENG-022", "ENG-023")
@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({ON_DISK: fp8()[ON_DISK]}, r"up_proj\.weight is F8_E4M3.*beside _scale_inv or _scale \(there: none\)"),
        ({ON_DISK: modelopt()[ON_DISK]}, r"up_proj\.weight is U8.*beside _scale and _scale_2 \(there: none\)"),
        (
            {**compressed(), f"{ON_DISK}_global_scale": None},
            r"is U8.*beside _scale and _global_scale \(there: .*_scale",
        ),
        ({**fp8(), ON_DISK: None}, r"up_proj\.weight_scale_inv is a scale, but .*up_proj\.weight is missing"),
        ({**fp8(), ON_DISK: weight()}, r"weight_scale_inv is a scale, but .*up_proj\.weight is F32, no codes"),
        ({**fp8(), f"{ON_DISK}_scale_inv": torch.ones(1, 3)}, r"shape \[1, 3\], its codes ask for \[2, 3\]"),
        ({**fp8(), f"{ON_DISK}_scale_inv": torch.ones(2, 3, dtype=torch.uint8)}, r"is U8; served are BF16, F32"),
        ({**fp8_rows(), f"{ON_DISK}_scale": torch.ones(())}, r"shape \[\], its codes ask for \[200\]"),
        ({**modelopt(), f"{ON_DISK}_scale": torch.ones(200, 19)}, r"weight_scale is F32; served are F8_E4M3"),
        ({**modelopt(), f"{ON_DISK}_scale_2": torch.ones(200)}, r"weight_scale_2 has shape \[200\]"),
        ({**modelopt(), ON_DISK: torch.zeros(200, 151, dtype=torch.uint8)}, r"has no whole groups of 16 columns"),
        ({**modelopt(), f"{ON_DISK}_packed": modelopt()[ON_DISK].clone()}, r"is defined twice"),
        ({ON_DISK: torch.zeros(4, 4, dtype=torch.int8)}, r"up_proj\.weight is I8; served are F32, F16, BF16"),
    ],
)
def test_what_does_not_fit_together_is_named(tmp_path: Path, tensors: dict[str, Tensor | None], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        written(tmp_path, {name: tensor for name, tensor in tensors.items() if tensor is not None})


@pytest.mark.spec("ENG-019")
def test_scales_of_activations_are_left_out(tmp_path: Path) -> None:
    at = "model.layers.0."
    extra = {f"{at}{name}": torch.ones(()) for name in ("mlp.up_proj.input_scale", "self_attn.k_proj.k_scale")}
    weights = written(tmp_path, {**modelopt(), **extra})
    assert list(weights.names()) == [NAME]
    assert weights.skipped().keys() == extra.keys()


MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
BLOCKS = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}


@pytest.mark.spec("ENG-022", "ENG-023")
@pytest.mark.parametrize(
    "declared",
    [
        BLOCKS,
        BLOCKS | {"activation_scheme": "dynamic", "modules_to_not_convert": ["lm_head"]},
        MODELOPT,
        MODELOPT | {"config_groups": {"group_0": {"weights": {"group_size": 16}}}},
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
    ],
)
def test_a_served_quantisation_is_taken(declared: dict[str, Any]) -> None:
    require_served_quantisation(declared, "config.json")


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"bits": 4}, "None"),
        (BLOCKS | {"weight_block_size": [64, 64]}, r"fp8 with weight_block_size \[64, 64\]"),
        (BLOCKS | {"fmt": "e5m2"}, "fp8 e5m2"),
        (BLOCKS | {"scale_fmt": "ue8m0"}, "fp8 with scale_fmt ue8m0"),
        (MODELOPT | {"quant_algo": "W4A8_AWQ"}, "modelopt W4A8_AWQ"),
        (MODELOPT | {"group_size": 32}, "modelopt NVFP4 with group_size 32"),
        ({"quant_method": "compressed-tensors", "format": "float-quantized"}, "compressed-tensors float-quantized"),
    ],
)
def test_any_other_quantisation_is_refused_by_name(tmp_path: Path, declared: dict[str, Any], named: str) -> None:
    directory = build_llama(tmp_path / "tiny")
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": declared}))
    with pytest.raises(CheckpointError, match=f"config.json: weights quantised as {named} are not served"):
        open_checkpoint(directory)
