"""What a turn is drawn with where it is not greedy (SMP-002, SMP-006)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

__all__ = ["SHIPPED", "Draw", "SamplingKit", "sampling_kit"]


@dataclass(frozen=True, slots=True)
class Draw:
    """Sampling, by the names of the engine's rules."""

    temperature: float
    top_p: float
    top_k: int
    """0: no limit."""

    def told(self) -> dict[str, float]:
        """For the row, the log and /health."""
        return asdict(self)


REGENERATE = Draw(0.7, 0.95, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingKit:
    """The server's settings of sampling under a plan."""

    regenerates: bool = True
    """`--regenerate`."""
    regenerate: Draw = REGENERATE
    card: Draw = REGENERATE
    """The checkpoint's own, for a turn with tools."""


SHIPPED = SamplingKit()
"""The defaults of the settings."""


def sampling_kit(card: Mapping[str, float], *, regenerates: bool = True, regenerate: Draw = REGENERATE) -> SamplingKit:
    """`card` is what the checkpoint's `generation_config.json` names; without a temperature it names no sampling."""
    temperature = card.get("temperature", 0.0)
    own = Draw(temperature, card.get("top_p", 1.0), int(card.get("top_k", 0))) if temperature > 0 else regenerate
    return SamplingKit(regenerates=regenerates, regenerate=regenerate, card=own)
