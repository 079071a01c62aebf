"""The router document: classes, their policies, the stages of the class question and all thresholds (RTR-027).

Every default is the column "absent" of table 3.4; what a new install gets is in `shipped/router.json`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tandem.conductor.documents.outcomes import OutcomeSettings
from tandem.conductor.documents.words import ClassId, Level, Name, OnOff, PackageNames, Section, Share, Switch

__all__ = [
    "BelowAccept",
    "Classifier",
    "ClassDef",
    "ContextStage",
    "Effort",
    "EffortBySize",
    "Injection",
    "LibrarySettings",
    "PackageSettings",
    "Policy",
    "ProbeStage",
    "Reading",
    "Router",
    "SideShape",
    "SizeThresholds",
    "Stage",
    "Sticky",
    "Structural",
    "ToolFit",
]

CODE_CLASSES = ("code_edit", "debug", "design_ui", "drawing", "three_d")
Tokens = Annotated[int, Meta(ge=1, le=1_000_000)]


class ClassDef(Section, frozen=True):
    id: Annotated[ClassId, Meta(description="The name that profiles, policies and rows use.")]
    label: Annotated[str, Meta(min_length=1, max_length=60, description="What a person reads.")]
    description: Annotated[str, Meta(min_length=1, max_length=400, description="What the class question shows.")]
    code: Annotated[bool, Meta(description="A code class: guard, n-gram rule and claim check look at it.")] = False
    structural: Annotated[bool, Meta(description="Found by a request's shape, never an option of a question.")] = False


class EffortBySize(Section, frozen=True):
    small: Annotated[Level | None, Meta(description="Effort of a small task. Absent: the class's.")] = None
    medium: Annotated[Level | None, Meta(description="Effort of a medium task. Absent: the class's.")] = None
    large: Annotated[Level | None, Meta(description="Effort of a large task. Absent: the class's.")] = None


class Policy(Section, frozen=True):
    effort: Annotated[Level, Meta(description="How long the model may think.")]
    effort_by_size: Annotated[EffortBySize, Meta(description="Effort by the task's size.")] = EffortBySize()
    packages: Annotated[PackageNames, Meta(description="Packages the class may carry, general and core first.")] = ()
    core: Annotated[PackageNames, Meta(description="Of these packages those that every turn carries.")] = ()
    rules: Annotated[tuple[str, ...], Meta(description="Short texts that go into the note.")] = ()
    package_sticky: Annotated[
        Literal["class", "message"] | None,
        Meta(description="class: a chosen package stays while the class does. message: asked each message."),
    ] = None
    builds: Annotated[bool, Meta(description="The class makes a deliverable.")] = False


class Stage(Section, frozen=True):
    mode: Annotated[OnOff, Meta(description="Whether the stage is asked.")] = "on"
    accept: Annotated[Share, Meta(description="The probability from which its answer is used.")] = 0.8


class EngineStage(Stage, frozen=True):
    accept: Annotated[Share, Meta(description="The probability from which its answer is used.")] = 0.55


class Guard(Section, frozen=True):
    mode: Annotated[OnOff, Meta(description="Prose words veto a weak code class.")] = "on"
    below: Annotated[Share, Meta(description="A code class under this probability is weak.")] = 0.7


class BelowAccept(Section, frozen=True):
    mode: Annotated[
        Literal["default", "build"],
        Meta(description="build: a session's first message keeps a class that builds and leads clearly."),
    ] = "default"
    margin: Annotated[Share, Meta(description="How far it must lead.")] = 0.1


def _phrases() -> dict[str, str]:
    return {"three_d": "a 3D three.js scene", "design_ui": "a flat web page", "drawing": "a 2D drawing"}


class Reading(Section, frozen=True):
    mode: Annotated[Switch, Meta(description="Say how a doubtful message was read, and invite a correction.")] = "off"
    below: Annotated[Share, Meta(description="The class was picked below this probability.")] = 0.8
    other: Annotated[Share, Meta(description="Another class reached this probability.")] = 0.15
    phrases: Annotated[
        dict[ClassId, str], Meta(description="What each class makes, in words; a class without one is left out.")
    ] = msgspec.field(default_factory=_phrases)


class ContextStage(Section, frozen=True):
    mode: Annotated[OnOff, Meta(description="Ask the class inside the conversation.")] = "off"
    min_tokens: Annotated[Tokens, Meta(description="From this prompt length on.")] = 8192
    followups: Annotated[bool, Meta(description="Also wherever an earlier answer exists.")] = True
    accept: Annotated[Share, Meta(description="The probability from which its answer is used.")] = 0.55
    question: Annotated[str | None, Meta(description="The question. Absent: the built-in one.")] = None


class ProbeStage(Section, frozen=True):
    mode: Annotated[Switch, Meta(description="Ask a trained probe first.")] = "off"
    file: Annotated[str, Meta(description="Its file: a name under the probes' directory, or a path.")] = ""
    accept: Annotated[Share, Meta(description="The probability from which its answer is used.")] = 0.9


class Classifier(Section, frozen=True):
    prompt: Annotated[str | None, Meta(description="The class question. Absent: the built-in one.")] = None
    decider: Annotated[Stage, Meta(description="Stage 1: a decision model.")] = Stage()
    engine: Annotated[EngineStage, Meta(description="Stage 2: the served model's own choice.")] = EngineStage()
    digest_chars: Annotated[int, Meta(ge=200, le=100_000, description="Characters of the message it reads.")] = 2000
    timeout_ms: Annotated[int, Meta(ge=1, le=600_000, description="How long a turn waits for it.")] = 8000
    context_line: Annotated[OnOff, Meta(description="Follow the digest with a line about the session.")] = "off"
    guard: Annotated[Guard, Meta(description="Prose against a weak code class.")] = Guard()
    below_accept: Annotated[BelowAccept, Meta(description="When no stage is sure enough.")] = BelowAccept()
    reading: Annotated[Reading, Meta(description="The reading line.")] = Reading()
    context_stage: Annotated[ContextStage, Meta(description="The question inside the conversation.")] = ContextStage()
    probe_stage: Annotated[ProbeStage, Meta(description="The probe.")] = ProbeStage()
    package_sticky: Annotated[
        Literal["class", "message"], Meta(description="For classes whose policy does not say.")
    ] = "message"
    package_prompt: Annotated[
        str | None, Meta(description="The package question; may use {class}, {question} and {classes}.")
    ] = None


class PackageSettings(Section, frozen=True):
    accept: Annotated[Share, Meta(description="The probability from which a picked package is used.")] = 0.6


class Sticky(Section, frozen=True):
    switch: Annotated[Share, Meta(description="The probability at which a session moves to another class.")] = 0.8


class Injection(Section, frozen=True):
    max_replay_tokens: Annotated[int, Meta(ge=0, le=1_000_000, description="Tokens of notes a session carries on.")] = (
        16_000
    )


class SideShape(Section, frozen=True):
    id: Annotated[Name, Meta(description="The shape's name in the journal.")]
    client: Annotated[str, Meta(min_length=1, max_length=40, description="The client kind that sends it.")]
    kind: Annotated[Literal["title", "summary", "tags", "followups"], Meta(description="What it asks for.")]
    match: Annotated[
        str | tuple[str, ...], Meta(description="The text it opens with, at least 24 characters; or several.")
    ]
    max_tokens: Annotated[Tokens, Meta(description="The longest answer.")]
    role: Annotated[Literal["system", "user"], Meta(description="Whose message opens with the text.")] = "system"


class Structural(Section, frozen=True):
    tool_turn_effort: Annotated[
        Literal["inherit"] | Level, Meta(description="Effort of turns that only bring tool results.")
    ] = "inherit"
    side_requests: Annotated[OnOff, Meta(description="Serve titles, tags and the like small and first.")] = "on"
    side_shapes: Annotated[
        tuple[SideShape, ...] | None, Meta(description="Shapes of side requests. Absent: the built-in list.")
    ] = None


class Budgets(Section, frozen=True):
    low: Annotated[Tokens, Meta(description="Reasoning tokens at effort low.")] = 1024
    medium: Annotated[Tokens, Meta(description="Reasoning tokens at effort medium.")] = 8192
    high: Annotated[Tokens, Meta(description="Reasoning tokens at effort high.")] = 16_384
    xhigh: Annotated[Tokens | None, Meta(description="Absent: no cap below the monitor's.")] = None


class Sentences(Section, frozen=True):
    low: Annotated[str, Meta(description="The note's sentence at effort low.")] = (
        "Reasoning effort is set to low. Think briefly."
    )
    medium: Annotated[str, Meta(description="The note's sentence at effort medium.")] = (
        "Reasoning effort is set to medium. Think as far as the task needs."
    )
    high: Annotated[str, Meta(description="The note's sentence at effort high.")] = (
        "Reasoning effort is set to high. Think carefully."
    )
    xhigh: Annotated[str, Meta(description="The note's sentence at effort xhigh.")] = (
        "Reasoning effort is set to xhigh. Think carefully and check your work."
    )


class SizeThresholds(Section, frozen=True):
    """Below the first number a signal says small, up to the second medium, beyond it large (EFF-005)."""

    added_tokens: Annotated[tuple[int, int], Meta(description="Tokens since the first request.")] = (20_000, 60_000)
    files: Annotated[tuple[int, int], Meta(description="Different files its calls touched.")] = (3, 8)
    gates: Annotated[tuple[int, int], Meta(description="Gates in one checker's line.")] = (4, 8)
    turns: Annotated[tuple[int, int], Meta(description="The turn's number.")] = (30, 100)


class Effort(Section, frozen=True):
    budgets: Annotated[Budgets, Meta(description="Reasoning tokens by level.")] = Budgets()
    size: Annotated[SizeThresholds, Meta(description="When a task counts as medium or large.")] = SizeThresholds()
    sentences: Annotated[Sentences, Meta(description="What the note says of the effort.")] = Sentences()


class ToolFit(Section, frozen=True):
    mode: Annotated[Switch, Meta(description="Leave out packages that the request's tools cannot carry out.")] = "on"
    note_none: Annotated[str, Meta(description="The sentence where no tool can run or write; may use {tools}.")] = (
        "The tools of this chat are: {tools}. None of them runs commands or writes files: give every file as a whole "
        "code block in the answer."
    )
    note_write: Annotated[str, Meta(description="The sentence where files can be written, not run.")] = (
        "The tools of this chat are: {tools}. They can write files and cannot run commands: check your work by reading."
    )


class LibrarySettings(Section, frozen=True):
    outcomes: Annotated[tuple[str, ...], Meta(description="Outcomes that start a search.")] = ("low_quality", "stuck")
    class_filter: Annotated[bool, Meta(description="Only skills that fit the class.")] = True
    candidates: Annotated[int, Meta(ge=1, le=20, description="Skills put to the question.")] = 4
    max_picks: Annotated[int, Meta(ge=1, le=1, description="Skills taken.")] = 1
    accept: Annotated[Share, Meta(description="The probability from which a pick is used.")] = 0.6
    header: Annotated[str, Meta(description="The line above a skill.")] = "A skill from the library that fits the task:"
    card: Annotated[Name, Meta(description="The package that says there is a library.")] = "tandem-library"
    card_classes: Annotated[tuple[ClassId, ...], Meta(description="Classes that carry the card.")] = CODE_CLASSES


class Router(Section, frozen=True):
    classes: Annotated[tuple[ClassDef, ...], Meta(min_length=1, description="The classes of turns.")]
    policies: Annotated[dict[ClassId, Policy], Meta(description="What each class gets.")]
    classifier: Annotated[Classifier, Meta(description="How a message's class is found.")] = Classifier()
    package_question: Annotated[OnOff, Meta(description="Ask which package fits the message.")] = "off"
    packages: Annotated[PackageSettings, Meta(description="The package question's threshold.")] = PackageSettings()
    sticky: Annotated[Sticky, Meta(description="When a session changes its class.")] = Sticky()
    injection: Annotated[Injection, Meta(description="Notes that are carried on.")] = Injection()
    structural: Annotated[Structural, Meta(description="Turns known by their shape.")] = Structural()
    effort: Annotated[Effort, Meta(description="Levels of effort.")] = Effort()
    tool_fit: Annotated[ToolFit, Meta(description="Packages against the tools at hand.")] = ToolFit()
    library: Annotated[LibrarySettings, Meta(description="The skill library.")] = LibrarySettings()
    outcomes: Annotated[OutcomeSettings, Meta(description="What became of a turn.")] = OutcomeSettings()
