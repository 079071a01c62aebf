"""How often turns were sampled, for /health (SMP-004, SMP-008)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tandem.conductor.sampling.decision import SamplingDecision
from tandem.conductor.sampling.rules import SamplingKit

__all__ = ["SamplingCounts"]


class SamplingCounts:
    """Since the start. Whoever applies a plan counts it."""

    def __init__(self) -> None:
        self._regenerates: Counter[str] = Counter()
        self._escapes: Counter[str] = Counter()
        self._cards = 0

    def add(self, decision: SamplingDecision) -> None:
        if decision.why == "regenerate":
            self._regenerates["client_params" if decision.draw is None else str(decision.by)] += 1
        elif decision.why == "card":
            self._cards += 1
        if (loop := decision.extra.get("loop_escape")) is not None:
            self._escapes[loop["state"]] += 1

    def blocks(self, kit: SamplingKit) -> dict[str, Any]:
        """`regenerate` and `loop_escape` of /health `sampling` (API-054)."""
        names = ("header", "conversation", "client_params")
        counts = {name: self._regenerates[name] for name in names}
        return {
            "regenerate": {"on": kit.regenerates, **kit.regenerate.told(), "counts": counts},
            "loop_escape": {
                **kit.card.told(),
                "counts": {"on": self._escapes["on"], "back": self._escapes["back"], "card": self._cards},
            },
        }
