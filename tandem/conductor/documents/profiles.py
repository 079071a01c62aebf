"""A profile: what the conductor does for the requests that resolve to it (PRF-005 to PRF-018, table 1.2).

Its name is the document's name and no key of it. Every default is table 1.2's column "absent".
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tandem.conductor.documents.words import (
    ClassId,
    Level,
    Mode,
    OnOff,
    OnShadowAct,
    PackageNames,
    Section,
    Share,
    Switch,
)

__all__ = [
    "LOCKED",
    "ClassRouting",
    "Decisions",
    "Outcomes",
    "Profile",
    "ProfileCaps",
    "ProfileContext",
    "ProfileSampling",
    "ProfileThinking",
    "ProfileUi",
    "Routing",
    "ToolGate",
]

LOCKED = ("raw", "bench")
"""Their documents never change and their mode is always raw (PRF-012)."""


class Decisions(Section, frozen=True):
    classify: Annotated[Switch, Meta(description="Find the class of a new user message.")] = "off"
    effort: Annotated[Switch, Meta(description="Set how long the model may think, by the turn's class.")] = "off"
    package: Annotated[Switch, Meta(description="Give the turn the packages of its class.")] = "off"
    identity: Annotated[
        Switch | None,
        Meta(description="Tell the model which model it is when somebody asks. Absent: follows the profile's mode."),
    ] = None


class ClassRouting(Section, frozen=True):
    """What a profile says of one class instead of the class's policy; an absent key leaves the policy's value."""

    effort: Annotated[Level | None, Meta(description="The class's effort under this profile.")] = None
    packages: Annotated[PackageNames | None, Meta(description="The class's packages under this profile.")] = None
    core: Annotated[PackageNames | None, Meta(description="Takes the place of the class's core packages.")] = None
    rules: Annotated[tuple[str, ...] | None, Meta(description="Short texts that go into the note.")] = None


class Routing(Section, frozen=True):
    default_class: Annotated[
        ClassId | None,
        Meta(description="The class of a session that nothing has classified yet. null: none."),
    ] = "chat"
    classes: Annotated[
        dict[ClassId, ClassRouting], Meta(description="Values that replace a class's policy under this profile.")
    ] = msgspec.field(default_factory=dict)


Seconds = Annotated[float, Meta(ge=0, le=3600)]
Budget = Annotated[int, Meta(ge=1, le=1_000_000)]


class ProfileThinking(Section, frozen=True):
    budgets: Annotated[
        dict[Literal["low", "medium", "high", "xhigh"], Budget],
        Meta(description="Reasoning tokens an effort level may use, instead of the router document's."),
    ] = msgspec.field(default_factory=dict)
    by_size: Annotated[
        Switch, Meta(description="Lower the effort of small tasks as the class's effort_by_size says.")
    ] = "shadow"
    client_word: Annotated[
        Literal["ceiling", "ignore"],
        Meta(description="ceiling: an effort word of the client caps the turn. ignore: it changes nothing."),
    ] = "ceiling"
    tool_turn_effort: Annotated[
        Literal["inherit"] | Level | None,
        Meta(description="Effort of turns that only bring tool results. inherit: the class's. Absent: the router's."),
    ] = None


class ProfileSampling(Section, frozen=True):
    loop_escape: Annotated[
        OnOff, Meta(description="Sample a turn with tools that ends in a repeat, so that it leaves the loop.")
    ] = "off"
    agentic_default: Annotated[
        Literal["greedy", "card"],
        Meta(description="Sampling of requests with tools: greedy, or as the model's card says."),
    ] = "greedy"


class Outcomes(Section, frozen=True):
    snapshots: Annotated[OnOff, Meta(description="Keep a snapshot of each tool turn's results.")] = "off"
    label: Annotated[OnShadowAct, Meta(description="Name what became of a turn, and act on it.")] = "off"
    cards: Annotated[Switch, Meta(description="Keep the tool card and the harness card live.")] = "off"
    evaluate: Annotated[Switch, Meta(description="Have a stuck or weak turn planned anew.")] = "off"
    judge: Annotated[Switch, Meta(description="Ask the tester about cases that no fact decides.")] = "off"
    retrieve: Annotated[Switch, Meta(description="Fetch a test skill for an outcome.")] = "off"


class ToolGate(Section, frozen=True):
    risk: Annotated[OnOff, Meta(description="C1: calls that destroy or publish.")] = "off"
    project: Annotated[OnOff, Meta(description="C2: rules of the project.")] = "off"
    same_call: Annotated[OnOff, Meta(description="C3: the same call with the same result, again and again.")] = "off"
    malformed: Annotated[OnOff, Meta(description="C4: calls that cannot be parsed or miss an argument.")] = "off"
    sequence: Annotated[OnOff, Meta(description="C5: several changing calls in one answer.")] = "off"


class Task(Section, frozen=True):
    """What a profile says of one task of the monitor; an absent key leaves the monitor document's value."""

    mode: Annotated[OnShadowAct | None, Meta(description="off, shadow (journals only) or act.")] = None


class ClaimTask(Task, frozen=True):
    claim_at: Annotated[Share | None, Meta(description="From here on a message counts as a claim.")] = None
    admit_at: Annotated[Share | None, Meta(description="From here on a verdict is acted upon.")] = None


class SameCallTask(Task, frozen=True):
    repeats: Annotated[
        Annotated[int, Meta(ge=2, le=100)] | None, Meta(description="Equal calls that are one too many.")
    ] = None
    cycle: Annotated[Annotated[int, Meta(ge=1, le=100)] | None, Meta(description="The longest period looked at.")] = (
        None
    )
    wait_s: Annotated[Seconds | None, Meta(description="A result that took this long was waited for.")] = None


class RewriteTask(Task, frozen=True):
    regenerations: Annotated[
        Annotated[int, Meta(ge=0, le=10)] | None, Meta(description="How often a call is written again.")
    ] = None


class Tasks(Section, frozen=True):
    """Overrides by task (MON-010). A task that is not named follows the policy, or is off (table 1.2)."""

    D1: Annotated[Task, Meta(description="Repetition inside the reasoning.")] = Task()
    D1b: Annotated[Task, Meta(description="Reasoning that repeats an earlier turn's.")] = Task()
    D2: Annotated[Task, Meta(description="The longest reasoning there is.")] = Task()
    D3: Annotated[Task, Meta(description="Repetition in the answer's text.")] = Task()
    E1: Annotated[Task, Meta(description="A turn that ends without an answer.")] = Task()
    E2: Annotated[ClaimTask, Meta(description="A claim that no evidence supports.")] = ClaimTask()
    C1: Annotated[RewriteTask, Meta(description="Risky calls.")] = RewriteTask()
    C2: Annotated[RewriteTask, Meta(description="Calls against the project's rules.")] = RewriteTask()
    C3: Annotated[SameCallTask, Meta(description="The same call again.")] = SameCallTask()
    C4: Annotated[RewriteTask, Meta(description="Malformed calls.")] = RewriteTask()
    C5: Annotated[RewriteTask, Meta(description="Changing calls in one answer.")] = RewriteTask()
    S1: Annotated[Task, Meta(description="Session task S1.")] = Task()
    S2: Annotated[Task, Meta(description="Session task S2.")] = Task()
    S4: Annotated[Task, Meta(description="Session task S4.")] = Task()


class ProfileCaps(Section, frozen=True):
    """Replaces the policy's caps for this profile's requests (MON-154)."""

    acts_per_request: Annotated[int, Meta(ge=0, le=1000, description="Acts in one request.")] = 4
    acts_per_session_hour: Annotated[int, Meta(ge=0, le=10_000, description="Acts in a session and hour.")] = 20


class ProfileContext(Section, frozen=True):
    notify: Annotated[
        OnOff, Meta(description="Push a message when the client of a session that keeps state files is gone.")
    ] = "off"
    s1_runs: Annotated[
        Annotated[int, Meta(ge=2, le=100)] | None,
        Meta(description="S1: failures running of one gate. Absent: the monitor document's."),
    ] = None
    s4_minutes: Annotated[
        Annotated[float, Meta(gt=0, le=1440)] | None,
        Meta(description="S4: minutes without progress, or without a request. Absent: the monitor document's."),
    ] = None


Kind = Literal[
    "route", "packages", "compaction", "queue", "queue_eta", "prefill", "thinking", "cap", "loop", "continue",
    "tool_check", "note", "memory",
]  # fmt: skip


class Progress(Section, frozen=True):
    mode: Annotated[OnOff, Meta(description="Lines while a request waits, reads or thinks.")] = "on"
    prefill_every_s: Annotated[Seconds, Meta(description="Seconds between two lines while the prompt is read.")] = 10
    thinking_every_s: Annotated[Seconds, Meta(description="Seconds between two lines while it thinks.")] = 120
    thinking_every_tokens: Annotated[int, Meta(ge=1, description="Tokens between two lines while it thinks.")] = 4096


class Voice(Section, frozen=True):
    first_s: Annotated[Seconds, Meta(description="First line on a running thought.")] = 15
    every_s: Annotated[Seconds, Meta(description="Further lines on it.")] = 25
    thought_min_s: Annotated[Seconds, Meta(description="Shortest thought worth a conclusion.")] = 10
    tool_after_s: Annotated[Seconds, Meta(description="A call that lasts longer gets a line.")] = 1.5
    min_gap_s: Annotated[Seconds, Meta(description="Distance of two written lines.")] = 12
    fallback_s: Annotated[Seconds, Meta(description="A template after that much silence.")] = 120
    share: Annotated[float, Meta(ge=0, le=1, description="Share of the time since the first token.")] = 0.03
    end_ms: Annotated[int, Meta(ge=0, le=60_000, description="Extra time at the end, in milliseconds.")] = 400


class ProfileUi(Section, frozen=True):
    states: Annotated[OnOff, Meta(description="Lines that tell the user what the server does.")] = "off"
    states_channel: Annotated[
        Literal["reasoning", "content", "inline"], Meta(description="Where such a line is sent.")
    ] = "reasoning"
    kinds: Annotated[dict[Kind, OnOff], Meta(description="Kinds of lines that are off; the others are on.")] = (
        msgspec.field(default_factory=dict)
    )
    progress: Annotated[Progress, Meta(description="How often a long step gets a line.")] = Progress()
    narrator: Annotated[
        Literal["off", "on", "thoughts", "live"], Meta(description="A small model that writes the lines.")
    ] = "off"
    live: Annotated[Voice, Meta(description="Timing of narrator mode live.")] = Voice()


class Profile(Section, frozen=True):
    mode: Annotated[
        Mode, Meta(description="on: decide and apply. shadow: decide and only journal. raw: the engine alone.")
    ]
    locked: Annotated[bool, Meta(description="The shipped profiles raw and bench cannot be changed.")] = False
    clients: Annotated[tuple[str, ...], Meta(description="Client kinds that get this profile.")] = ()
    prompt: Annotated[
        Literal["router", "client"],
        Meta(description="client: the model reads exactly what the client sent; nothing is added to the prompt."),
    ] = "router"
    decisions: Annotated[Decisions, Meta(description="Which decisions are made, and which are applied.")] = Decisions()
    routing: Annotated[Routing, Meta(description="Classes under this profile.")] = Routing()
    thinking: Annotated[ProfileThinking, Meta(description="How long the model may think.")] = ProfileThinking()
    sampling: Annotated[ProfileSampling, Meta(description="How tokens are drawn.")] = ProfileSampling()
    secret_mask: Annotated[Switch, Meta(description="Mask secrets of tool results that an answer repeats.")] = "off"
    library: Annotated[Switch, Meta(description="Look for a skill that fits the task.")] = "off"
    memory: Annotated[Switch, Meta(description="The note memory.")] = "off"
    transcripts: Annotated[
        Literal["off"] | None, Meta(description="off: no transcript is written. Absent: the settings' scope.")
    ] = None
    outcomes: Annotated[Outcomes, Meta(description="What is made of a turn's results.")] = Outcomes()
    toolgate: Annotated[ToolGate, Meta(description="Packs of tool-call checks.")] = ToolGate()
    tasks: Annotated[Tasks, Meta(description="Tasks of the monitor under this profile.")] = Tasks()
    caps: Annotated[ProfileCaps | None, Meta(description="Caps on acts. Absent: the monitor document's.")] = None
    context: Annotated[
        ProfileContext, Meta(description="Thresholds of the session tasks, and the watch's message.")
    ] = ProfileContext()
    ui: Annotated[ProfileUi, Meta(description="Lines shown to the user.")] = ProfileUi()
