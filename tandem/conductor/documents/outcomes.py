"""The router document's section `outcomes` (OUT-006). No code reads it yet; a stored document keeps it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tandem.conductor.documents.words import ClassId, Level, Name, OnShadowAct, PackageNames, Section, Share

__all__ = ["OutcomeSettings"]

Label = Literal[
    "no_visible_change", "regression", "error", "low_quality", "surprise", "stuck", "tool_misuse", "test_faked",
    "environment", "lost_context", "progress",
]  # fmt: skip


class Limits(Section, frozen=True):
    digest_chars: Annotated[int, Meta(ge=100, le=20_000, description="Characters of a turn's digest.")] = 1200


class LowQuality(Section, frozen=True):
    far: Annotated[Share, Meta(description="The share by which a reading misses its limit.")] = 0.5
    fails: Annotated[int, Meta(ge=1, le=100, description="The same gate failed this often.")] = 3


class Stuck(Section, frozen=True):
    turns: Annotated[int, Meta(ge=1, le=1000, description="Tool turns without a step forward.")] = 8
    minutes: Annotated[int, Meta(ge=1, le=1000, description="Minutes without a step forward.")] = 15


class Cards(Section, frozen=True):
    classes: Annotated[tuple[ClassId, ...], Meta(description="Classes that carry the cards.")] = (
        "code_edit",
        "debug",
        "design_ui",
        "drawing",
        "three_d",
    )
    harness: Annotated[Name | None, Meta(description="The package that is the harness card.")] = None
    pitfalls: Annotated[dict[str, Name], Meta(description="The pitfalls package of a client kind.")] = msgspec.field(
        default_factory=dict
    )


class Ask(Section, frozen=True):
    mode: Annotated[OnShadowAct, Meta(description="Ask the engine about a run that has no exit code.")] = "off"


class Evaluate(Section, frozen=True):
    effort: Annotated[Level, Meta(description="Effort of a turn that plans anew.")] = "xhigh"
    ask: Annotated[Ask, Meta(description="The question in place.")] = Ask()


class Retrieve(Section, frozen=True):
    packages: Annotated[PackageNames, Meta(description="The test skills.")] = (
        "test-web",
        "test-cli",
        "test-api",
        "test-game",
        "test-data",
    )


class Judge(Section, frozen=True):
    deadline_ms: Annotated[int, Meta(ge=1, le=60_000, description="How long the judge may take.")] = 100


class OutcomeSettings(Section, frozen=True):
    order: Annotated[tuple[Label, ...], Meta(description="Labels in the order in which they are tried.")] = (
        "no_visible_change", "regression", "error", "low_quality", "surprise", "stuck", "tool_misuse", "test_faked",
        "environment", "lost_context", "progress",
    )  # fmt: skip
    effort: Annotated[dict[Label, Level], Meta(description="Effort after a label, instead of the built-in one.")] = (
        msgspec.field(default_factory=dict)
    )
    raise_turns: Annotated[int, Meta(ge=0, le=100, description="Tool turns a raise lasts.")] = 3
    acting: Annotated[tuple[Label, ...], Meta(description="Labels that add their text.")] = (
        "no_visible_change",
        "regression",
        "error",
        "tool_misuse",
        "test_faked",
    )
    notes: Annotated[dict[Label, str], Meta(description="Texts by label, instead of the built-in ones.")] = (
        msgspec.field(default_factory=dict)
    )
    limits: Annotated[Limits, Meta(description="How much is kept.")] = Limits()
    low_quality: Annotated[LowQuality, Meta(description="When a result is weak.")] = LowQuality()
    stuck: Annotated[Stuck, Meta(description="When a session is stuck.")] = Stuck()
    surprise: Annotated[tuple[str, ...], Meta(description="Ranges of state numbers nobody wants.")] = ("lives <= 0",)
    cards: Annotated[Cards, Meta(description="Cards that stay live.")] = Cards()
    evaluate: Annotated[Evaluate, Meta(description="Planning anew.")] = Evaluate()
    retrieve: Annotated[Retrieve, Meta(description="Test skills for an outcome.")] = Retrieve()
    judge: Annotated[Judge, Meta(description="The judge.")] = Judge()
