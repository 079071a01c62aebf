"""The tower of a Hugging Face directory: `vision_config` of its config, and `preprocessor_config.json` (ENG-175)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tandem.engine.checkpoints.config import VisionConfig
from tandem.engine.checkpoints.hf_config import read_json
from tandem.engine.errors import CheckpointError

__all__ = ["CARD", "read_vision"]

CARD = "preprocessor_config.json"
_TOWERS = ("qwen3_5", "qwen3_5_vision")
_BICUBIC = 3
_EXPECTED: Mapping[str, Mapping[str, Any]] = {
    "vision_config": {"hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "deepstack_visual_indexes": []},
    CARD: {"do_resize": True, "do_rescale": True, "do_normalize": True, "resample": _BICUBIC},
}
"""What the code computes, by the key that may ask for something else; a key that is left out means this."""
_LEAST, _MOST = 56 * 56, 28 * 28 * 1280
"""Bounds on pixels that the reference processor has where the card names none."""
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""CLIP's, in the same case."""


def read_vision(directory: Path) -> VisionConfig | None:
    """The tower of the checkpoint; None where there is none, or no card that says how images are cut for it.

    `CheckpointError` names what the card or the tower asks for and nothing here computes.
    """
    config, card_path = read_json(directory / "config.json"), directory / CARD
    tower = config.get("vision_config")
    if not isinstance(tower, dict) or not card_path.is_file():
        return None
    card = read_json(card_path)
    if (kind := tower.get("model_type", _TOWERS[0])) not in _TOWERS:
        raise CheckpointError(f"{directory}: vision tower {kind} is not served; served are: {', '.join(_TOWERS)}")
    for where, given in (("vision_config", tower), (CARD, card)):
        for key, expected in _EXPECTED[where].items():
            if given.get(key, expected) != expected:
                raise CheckpointError(f"{directory}: {key} of {where} is {given[key]}, only {expected} is served")
    try:
        vision = _vision(config, tower, card)
    except KeyError as error:
        raise CheckpointError(f"{directory}: vision_config and {CARD} have no {error.args[0]}") from None
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{directory}: vision_config or {CARD}: {error}") from error
    _require_served(vision, tower, config, directory)
    return vision


def _vision(config: Mapping[str, Any], tower: Mapping[str, Any], card: Mapping[str, Any]) -> VisionConfig:
    sizes = ("depth", "hidden_size", "intermediate_size", "num_heads", "out_hidden_size", "num_position_embeddings")
    bounds = card.get("size") or {}
    return VisionConfig(
        **{name: int(tower[name]) for name in sizes},
        in_channels=3,
        patch_size=int(card["patch_size"]),
        spatial_merge_size=int(card["merge_size"]),
        temporal_patch_size=int(card.get("temporal_patch_size", 2)),
        rope_theta=float((tower.get("rope_parameters") or {}).get("rope_theta") or 10000.0),
        image_token_id=int(config["image_token_id"]),
        min_pixels=int(card.get("min_pixels") or bounds.get("shortest_edge") or _LEAST),
        max_pixels=int(card.get("max_pixels") or bounds.get("longest_edge") or _MOST),
        image_mean=tuple(float(value) for value in card.get("image_mean") or _MEAN),
        image_std=tuple(float(value) for value in card.get("image_std") or _STD),
        rescale_factor=float(card.get("rescale_factor") or 1 / 255),
    )


def _require_served(vision: VisionConfig, tower: Mapping[str, Any], config: Mapping[str, Any], directory: Path) -> None:
    for name in ("patch_size", "spatial_merge_size", "temporal_patch_size"):
        if int(tower.get(name, getattr(vision, name))) != getattr(vision, name):
            raise CheckpointError(f"{directory}: {name} of the tower is {tower[name]}, {CARD} has another")
    least = (
        "depth",
        "hidden_size",
        "num_heads",
        "patch_size",
        "spatial_merge_size",
        "temporal_patch_size",
        "min_pixels",
    )
    for name in least:
        if getattr(vision, name) < 1:
            raise CheckpointError(f"{directory}: {name} of the tower is {getattr(vision, name)}")
    if vision.max_pixels < max(vision.min_pixels, (vision.patch_size * vision.spatial_merge_size) ** 2):
        raise CheckpointError(f"{directory}: max_pixels {vision.max_pixels} is below the least image")
    if vision.hidden_size % (4 * vision.num_heads):
        raise CheckpointError(
            f"{directory}: hidden_size {vision.hidden_size} of the tower is no multiple of 4 x {vision.num_heads} heads"
        )
    side = round(vision.num_position_embeddings**0.5)
    if side * side != vision.num_position_embeddings:
        raise CheckpointError(f"{directory}: num_position_embeddings {vision.num_position_embeddings} is no square")
    hidden = config.get("text_config", config).get("hidden_size")
    if vision.out_hidden_size != hidden:
        raise CheckpointError(f"{directory}: out_hidden_size {vision.out_hidden_size} is not the decoder's {hidden}")
    if not len(vision.image_mean) == len(vision.image_std) == vision.in_channels:
        raise CheckpointError(f"{directory}: image_mean and image_std must have one number a channel")
