"""The tower against the reference's, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tandem.engine.checkpoints.config import VisionConfig
from tandem.engine.checkpoints.layout import decoder_layout
from tandem.engine.checkpoints.safetensors import SafetensorsWeights
from tandem.engine.errors import CheckpointError
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.vision import Tower, encode_bytes, load_tower
from tandem.engine.models.vision.load import tower_bytes
from tandem.engine.models.vision.preprocess import Cutter
from tests.engine.models.memory import MemoryWeights, quiet
from tests.engine.models.vision.seeing import picture

SIZES = [(64, 64), (300, 90), (33, 200), (480, 500)]


def tower_of(checkpoint: Path, config: VisionConfig, cpu_weights: CpuWeights = "fp32") -> Tower:
    return load_tower(config, SafetensorsWeights(checkpoint, decoder_layout(vision=True)), quiet, cpu_weights)


@torch.inference_mode()
def seen(tower: Tower, cutter: Cutter, size: tuple[int, int]) -> Tensor:
    patches = cutter.cut(picture(*size))
    return tower(patches.pixels, patches.across, patches.down)


@pytest.mark.spec("ENG-099")
def test_rows_equal_the_references_of_images_together(
    checkpoint: Path, config: VisionConfig, cutter: Cutter, oracle: Any
) -> None:
    tower = tower_of(checkpoint, config)
    cut = [cutter.cut(picture(*size)) for size in SIZES]
    grids = torch.tensor([[1, 2 * patches.down, 2 * patches.across] for patches in cut])
    with torch.inference_mode():
        expected = oracle.model.visual(torch.cat([patches.pixels for patches in cut]), grids).pooler_output
        rows = torch.cat([tower(patches.pixels, patches.across, patches.down) for patches in cut])
    assert rows.shape == expected.shape
    assert expected.std() > 0.1
    assert (rows - expected).abs().max() < 1e-4


@pytest.mark.spec("ENG-098")
def test_in_bf16_it_stays_near(checkpoint: Path, config: VisionConfig, cutter: Cutter) -> None:
    exact = seen(tower_of(checkpoint, config), cutter, (300, 90))
    narrow = tower_of(checkpoint, config, "int8")
    assert narrow.dtype == torch.bfloat16
    rows = seen(narrow, Cutter(config, torch.bfloat16), (300, 90))
    assert rows.dtype == torch.bfloat16
    assert (rows - exact).pow(2).mean().sqrt() < 0.03 * exact.std()


@pytest.mark.spec("ENG-031")
@pytest.mark.parametrize("cpu_weights", ["fp32", "int4"])
def test_it_takes_the_bytes_that_were_foretold(checkpoint: Path, config: VisionConfig, cpu_weights: CpuWeights) -> None:
    weights = SafetensorsWeights(checkpoint, decoder_layout(vision=True))
    shapes = [each.shape for name, each in weights.stored().items() if name.startswith("visual.")]
    held, foretold = tower_of(checkpoint, config, cpu_weights).nbytes, tower_bytes(shapes, cpu_weights)
    # The learned positions stay in fp32, biases take the type of their matrix.
    assert abs(held - foretold) < 0.2 * foretold


@pytest.mark.spec("ENG-020", "ENG-098")
def test_progress_counts_every_tensor_once_and_a_missing_one_is_named(checkpoint: Path, config: VisionConfig) -> None:
    weights = SafetensorsWeights(checkpoint, decoder_layout(vision=True))
    stored = {name: each.shape for name, each in weights.stored().items() if name.startswith("visual.")}
    calls: list[tuple[int, int]] = []
    load_tower(config, weights, lambda *call: calls.append(call))
    assert calls == [(done, len(stored)) for done in range(1, len(stored) + 1)]
    tensors = {name: weights.tensor(name, shape) for name, shape in stored.items() if "fc2.bias" not in name}
    with pytest.raises(CheckpointError, match=r"visual\.blocks\.0\.mlp\.linear_fc2\.bias"):
        load_tower(config, MemoryWeights(tensors), quiet)


@pytest.mark.spec("ENG-102")
def test_the_27b_towers_largest_image_needs_about_what_the_spec_says(config: VisionConfig) -> None:
    sizes: dict[str, Any] = {"hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "depth": 27}
    given = {name: getattr(config, name) for name in VisionConfig.__dataclass_fields__} | sizes
    largest = 16_384 * encode_bytes(VisionConfig(**given), torch.bfloat16)
    assert 2 * 2**30 < largest < 4 * 2**30
