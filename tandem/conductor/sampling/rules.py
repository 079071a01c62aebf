"""What a turn is drawn with where it is not greedy (SMP-002, SMP-006)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from tandem.conductor.monitor.call_runs import WAIT_S
from tandem.conductor.monitor.events import Task
from tandem.conductor.sampling.loop_escape import ESCAPE_TEXT

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
    escape_text: str = ESCAPE_TEXT
    """C3's, of the monitor's policy (MON-092)."""
    wait_s: float = WAIT_S
    """C3's too, where the profile has none."""

    def under(self, tasks: Iterable[Task]) -> SamplingKit:
        """With what C3 says in a policy with these tasks."""
        shared = next((task.params for task in tasks if task.rule == "same_call"), None)
        if shared is None:
            return self
        return replace(self, escape_text=shared["escape_texts"], wait_s=shared["wait_s"])


SHIPPED = SamplingKit()
"""The defaults of the settings."""


def sampling_kit(card: Mapping[str, float], *, regenerates: bool = True, regenerate: Draw = REGENERATE) -> SamplingKit:
    """`card` is what the checkpoint's `generation_config.json` names; without a temperature it names no sampling."""
    temperature = card.get("temperature", 0.0)
    own = Draw(temperature, card.get("top_p", 1.0), int(card.get("top_k", 0))) if temperature > 0 else regenerate
    return SamplingKit(regenerates=regenerates, regenerate=regenerate, card=own)
