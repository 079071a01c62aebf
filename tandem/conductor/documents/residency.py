"""The residency document: memory that stays free, and what each role may claim (CFG-016)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.conductor.documents.words import Name, Section

__all__ = ["Residency"]

Gib = Annotated[float, Meta(ge=0, le=100_000)]


def _claims() -> dict[str, float]:
    return {"decider": 3.0, "narrator": 6.0}


class Residency(Section, frozen=True):
    floor_gib: Annotated[Gib | None, Meta(description="Memory that stays free. Absent: by the board.")] = None
    margin_gib: Annotated[Gib | None, Meta(description="Kept beside the floor. Absent: by the board.")] = None
    claims: Annotated[
        dict[Name, Gib], Meta(description="Memory a role may claim; wins over the role's own figure.")
    ] = msgspec.field(default_factory=_claims)
