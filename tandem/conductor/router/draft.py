"""All that was decided for a request, before it is asked what of it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem.conductor.documents import Switch
from tandem.conductor.packages.selection import PackageDecision
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.notes import NO_NOTES, Carried
from tandem.conductor.router.plan import ClassDecision, EffortDecision, SideServing, TurnKind
from tandem.conductor.router.prepare import Prepared
from tandem.conductor.sampling import GREEDY, SamplingDecision
from tandem.conductor.sessions import Answered, SessionView, SizeSignals

__all__ = ["FRESH", "Draft"]

FRESH = ("user", "after_compaction")
"""Turns that a person begins: their note has the class block (NOTE-006)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One request's decisions, as the planner makes them."""

    kit: Kit
    prepared: Prepared
    session: SessionView
    size: SizeSignals
    """The session's, this request counted."""
    turn: TurnKind
    switches: Mapping[str, Switch]
    repeated: Answered | None = None
    """The turn was begun before: it is asked again (SMP-002)."""
    class_decision: ClassDecision | None = None
    effort: EffortDecision | None = None
    packages: PackageDecision | None = None
    carried: Carried = NO_NOTES
    side: SideServing | None = None
    sampling: SamplingDecision = GREEDY
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What further rules say in the row."""

    @property
    def is_on(self) -> bool:
        return self.prepared.resolution.mode == "on"

    @property
    def is_there(self) -> bool:
        """A turn that is begun again at its place has its note already: another one would move tokens (NOTE-010)."""
        return self.repeated is not None and self.repeated.place == self.prepared.digests.place

    def applies(self, name: str) -> bool:
        """A switch in shadow under a plan that is on only tells; a plan in shadow is made as if it were on."""
        switch = self.switches[name]
        return switch == "on" or (switch == "shadow" and not self.is_on)
