"""What a load tries once before it is trusted: a forward of the model, a pass of its tower."""

from __future__ import annotations

import torch

from tandem.engine.errors import CheckpointError
from tandem.engine.models.model import Model
from tandem.engine.models.vision import Tower

__all__ = ["check_tower", "self_check"]


def self_check(model: Model) -> None:
    """One forward of a few tokens, as a chunk and as a single row; `CheckpointError` where a logit is not finite."""
    ids = torch.arange(min(8, model.config.vocab_size, model.config.max_position_embeddings))
    state = model.new_state(len(ids))
    with torch.inference_mode():
        hidden = torch.cat((model.forward(ids[:-1], 0, state), model.forward(ids[-1:], len(ids) - 1, state)))
        if not model.logits(hidden).isfinite().all():
            raise CheckpointError(f"{model.config.name}: the self-check gave logits that are not finite")


def check_tower(tower: Tower) -> None:
    """A pass over the least of images; `CheckpointError` where a number of it is not finite."""
    with torch.inference_mode():
        blank = torch.zeros(tower.config.merged, tower.config.patch_numbers, dtype=tower.dtype)
        if not tower(blank, 1, 1).isfinite().all():
            raise CheckpointError("the self-check of the vision tower gave numbers that are not finite")
