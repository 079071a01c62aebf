"""What a decoder of this family declares to the conductor (FIT-004, FIT-008)."""

from __future__ import annotations

from collections.abc import Mapping

from tandem.engine.checkpoints.config import ModelConfig

__all__ = ["declared_fit"]

SMALL = 576
"""The width of the embedded model, SmolLM2-135M. A decoder no wider answers a choice question hardly better than chance
and loses the task behind a long note."""
LEAN: Mapping[str, object] = {"questions": False, "packages": False, "lean": True}


def declared_fit(config: ModelConfig) -> Mapping[str, object]:
    """The fit keys that differ from the documents as written."""
    return LEAN if config.hidden_size <= SMALL else {}
