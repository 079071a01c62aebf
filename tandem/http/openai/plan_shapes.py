"""The shapes of the test box's route, as types: schemas are made from them (PRF-019)."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = ["ConductorTest", "PlanTest"]

Probability: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
TEXT_CHARS = 1_000_000


class PlanTest(Struct, forbid_unknown_fields=True):
    """A message to be tried."""

    text: Annotated[str, Meta(min_length=1, max_length=TEXT_CHARS, description="What a person would write.")]
    profile: Annotated[str | UnsetType | None, Meta(description="The default profile if absent.")] = UNSET


class StageShown(Struct, forbid_unknown_fields=True):
    """What one stage said."""

    stage: Annotated[str, Meta(description="decider or engine.")]
    label: str | None
    confidence: Probability | None
    probabilities: dict[str, Probability]
    ms: Annotated[float, Meta(ge=0)]
    error: Annotated[str | None, Meta(description="Why there is no answer.")]
    guard: Annotated[bool, Meta(description="A weak code class gave way to prose.")]


class PartShown(Struct, forbid_unknown_fields=True):
    """One part of the note."""

    kind: str
    name: str
    text: Annotated[str, Meta(description="As the model would read it.")]


class ConductorTest(Struct, forbid_unknown_fields=True, rename={"class_": "class"}):
    """What a fresh user message would be routed to."""

    contract_version: Annotated[str, Meta(pattern=r"^1\.0$")]
    profile: str
    mode: str
    turn: str
    class_: Annotated[str | None, Meta(description="null: none is decided.")] = None
    confidence: Probability | None = None
    source: str | None = None
    kept: str | None = None
    digest: Annotated[str | None, Meta(description="What the stages read.")] = None
    stages: list[StageShown] = []
    effort: str | None = None
    thinking: str | None = None
    budget: Annotated[Count | None, Meta(description="Reasoning tokens; null: no cap.")] = None
    size: Annotated[str | None, Meta(description="Of the task.")] = None
    note: list[PartShown] = []
    note_tokens: Count = 0
    extra: Annotated[dict[str, Any], Meta(description="Fields of the row that its rules would write.")] = {}
    ms: Annotated[float, Meta(ge=0, description="What planning took, its questions included.")] = 0.0
