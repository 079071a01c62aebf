"""A block drafter's directory beside a target: whether the two belong together, and what is made of them (ENG-047)."""

from __future__ import annotations

from pathlib import Path

from tandem.engine.checkpoints.block import BlockConfig, read_block_config
from tandem.engine.checkpoints.layout import Layout
from tandem.engine.checkpoints.safetensors import SafetensorsWeights
from tandem.engine.checkpoints.weights import Asked
from tandem.engine.drafting.block_layers import BlockLayers, load_block
from tandem.engine.errors import CheckpointError
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.model import Model, Progress
from tandem.engine.models.tapped import Tapped, TappedModel

__all__ = ["open_block"]


def open_block(
    path: Path, model: Model, tokenizer: str, progress: Progress, cpu_weights: CpuWeights
) -> tuple[BlockLayers, Tapped]:
    """The drafter's layers and the target, listened to; `tokenizer` is the sha256 of the target's.

    `CheckpointError` names what the drafter reads and the target does not offer: drafting on would only be rejected.
    """
    config = read_block_config(path)
    if not isinstance(model, TappedModel):
        raise CheckpointError(f"--block-drafter {path}: layers of {model.config.name} cannot be tapped where it runs")
    _require_offered(config, model, tokenizer)
    weights = SafetensorsWeights(path, Layout(wrappers=()))
    asked = Asked(weights)
    layers = load_block(config, asked, progress, cpu_weights)
    weights.close()
    if strange := sorted(asked.left()):
        raise CheckpointError(f"--block-drafter {path}: tensor {strange[0]} is none of a block drafter's")
    return layers, Tapped(model, config.tapped_layers)


def _require_offered(config: BlockConfig, model: Model, tokenizer: str) -> None:
    target = model.config
    pairs = {
        "hidden_size": (config.hidden_size, target.hidden_size),
        "vocab_size": (config.vocab_size, target.vocab_size),
        "tokenizer_sha256": (config.tokenizer_sha256, tokenizer),
    }
    for what, (asked, there) in pairs.items():
        if asked != there:
            raise CheckpointError(f"--block-drafter {config.name}: {what} is {asked}, that of {target.name} {there}")
    if config.tapped_layers[-1] >= target.num_hidden_layers:
        raise CheckpointError(
            f"--block-drafter {config.name}: it taps layer {config.tapped_layers[-1]}, and {target.name} has "
            f"{target.num_hidden_layers}"
        )
