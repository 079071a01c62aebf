"""A tiny checkpoint with a tower, the pictures its tests look at, and the `transformers` model of the same weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.load import load_engine
from tandem.engine.models.vision.preprocess import Cutter
from tandem.engine.room import Budgets
from tandem.engine.text.images import Patches, Picture, PromptImage
from tandem.engine.text.prompt import Prompt

__all__ = ["GRID", "TEXT", "engine_of", "ids_after", "oracle_of", "picture", "positions_of", "prompt_of", "seen_by"]

GRID = 32
TEXT = 380
"""Ids below it are text."""


def picture(width: int, height: int, seed: int = 0) -> Picture:
    """Random patches of colour with random noise on them."""
    draw = torch.Generator().manual_seed(1000 * width + height + seed)
    coarse = torch.rand(3, 1 + height // 20, 1 + width // 20, generator=draw)
    levels = torch.nn.functional.interpolate(coarse[None], (height, width), mode="nearest")[0] * 220
    levels = levels + 35 * torch.rand(3, height, width, generator=draw)
    return Picture(width, height, levels.permute(1, 2, 0).to(torch.uint8).numpy().tobytes())


def engine_of(path: Path, **options: Any) -> TorchEngine:
    given: dict[str, Any] = {"max_len": 512, "grid": GRID, "cpu_weights": "fp32", "budgets": Budgets(margin=0)}
    return load_engine(path, **(given | options))


def oracle_of(path: Path) -> Any:
    """`transformers.Qwen3_5ForConditionalGeneration` in fp32 on the checkpoint's weights."""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    config = Qwen3_5Config(**json.loads((path / "config.json").read_text()))
    oracle = Qwen3_5ForConditionalGeneration(config).float().eval()
    tensors: dict[str, Tensor] = {}
    for file in path.glob("*.safetensors"):
        tensors |= {name: tensor.float() for name, tensor in load_file(file).items()}
    missing, unexpected = oracle.load_state_dict(tensors, strict=False)
    assert not missing
    assert all(name.startswith("mtp.") for name in unexpected)
    return oracle


def prompt_of(placeholder: int, *parts: int | Patches, seed: int = 0) -> Prompt:
    """A prompt of random ids, as many as a part says, and of images."""
    draw = torch.Generator().manual_seed(seed)
    ids: list[int] = []
    images = []
    for part in parts:
        if isinstance(part, Patches):
            images.append(PromptImage(len(ids), part))
            ids += [placeholder] * part.rows
        else:
            ids += torch.randint(TEXT, (part,), generator=draw).tolist()
    return replace(Prompt.of_client(ids), images=tuple(images))


def seen_by(prompt: Prompt, cutter: Cutter) -> dict[str, Tensor]:
    """What the oracle is given for a prompt: ids, which of them are images, grids and patches."""
    merge = cutter.geometry.merge
    kinds = torch.zeros(1, len(prompt.ids), dtype=torch.int32)
    for image in prompt.images:
        kinds[0, image.start : image.stop] = 1
    given = {"input_ids": torch.tensor([prompt.ids]), "mm_token_type_ids": kinds}
    if prompt.images:
        grids = [[1, merge * image.patches.down, merge * image.patches.across] for image in prompt.images]
        given["image_grid_thw"] = torch.tensor(grids)
        given["pixel_values"] = torch.cat([image.patches.pixels for image in prompt.images]).float()
    return given


def positions_of(oracle: Any, prompt: Prompt, cutter: Cutter) -> tuple[Tensor, int]:
    """The reference's positions (3, rows), and how far its text behind them is off its rows."""
    given = seen_by(prompt, cutter)
    given.pop("pixel_values", None)
    positions, deltas = oracle.model.get_rope_index(**given)
    return positions[:, 0], int(deltas[0, 0])


def ids_after(prompt: Prompt, more: Sequence[int]) -> Prompt:
    """The prompt with text behind it."""
    return replace(Prompt.of_client((*prompt.ids, *more)), images=prompt.images)
