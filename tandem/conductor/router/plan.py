"""What the planner asks, and what it has decided: the values between the router's parts and the request's task.

`Question` goes out, `Answer` comes back, `Plan` ends it. A plan's `effects` are all that the request's task applies:
in mode `shadow` they change nothing, so whoever applies them cannot go wrong; the row tells what would have been.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tandem.conductor.documents import Level, Mode, Switch
from tandem.conductor.router.notes import LiveNote, NewNote
from tandem.conductor.sampling import GREEDY, SamplingDecision
from tandem.conductor.sessions import SessionDelta, SessionView

__all__ = [
    "Answer",
    "ClassDecision",
    "Effects",
    "EffortDecision",
    "Kept",
    "NO_EFFECTS",
    "Option",
    "Plan",
    "PlanRefused",
    "Question",
    "RouterRow",
    "SideServing",
    "Source",
    "StageName",
    "StageResult",
    "TurnKind",
]

TurnKind: TypeAlias = Literal["user", "tool", "media", "side", "compaction", "after_compaction", "assistant", "text"]
"""`text`: a text completion, which has no turns. `assistant`: the last message is the assistant's, to be gone on with.
`after_compaction`: the user turn after one.
"""
StageName: TypeAlias = Literal["decider", "engine", "engine_context", "probe"]
Source: TypeAlias = Literal[
    "decider", "engine", "engine_context", "probe", "sticky", "structural", "default"
]  # JRN-004
Kept: TypeAlias = Literal["tool_results", "tool_media", "after_compaction", "below_build"]


class PlanRefused(Exception):
    """The request asks for something that there is not: a 400 that names `param`."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param
        self.message = message


@dataclass(frozen=True, slots=True)
class Option:
    """One answer of a question. The model chooses among ids; the prompt shows the descriptions."""

    id: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A choice that is to be asked. Whoever asks gives up after `deadline_ms` and answers `Answer(error=…)`."""

    id: Literal["class", "package"]
    stage: StageName
    text: str
    """The whole question, options and digest in it."""
    lettered: str = ""
    """The same with a letter before every option, for a tokenizer to which their ids begin alike (RTR-008)."""
    options: tuple[Option, ...]
    deadline_ms: int
    under_grant: bool = False
    """Asked inside the conversation, by the request's own slot (RTR-019): nothing is sent anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`probabilities` has every option's id; empty with `error` where nobody answered (RTR-028)."""

    probabilities: Mapping[str, float] = field(default_factory=dict)
    ms: float = 0.0
    error: str | None = None
    """`engine_timeout`, `engine_busy`, `engine_failed` …"""
    prompt_tokens: int | None = None
    prefilled: int | None = None
    reused: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """What one stage said, as the row has it (RTR-014)."""

    stage: StageName
    label: str | None = None
    confidence: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    ms: float = 0.0
    error: str | None = None
    guard: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDecision:
    """The class of a turn and how it came about."""

    class_id: str
    source: Source
    confidence: float | None = None
    kept: Kept | None = None
    stages: tuple[StageResult, ...] = ()
    digest: str | None = None
    """What the stages read."""
    moved: bool = False
    """The session had another class before, or none."""
    reading: str | None = None
    """The reading line's sentence for the note (RTR-017)."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """`context_line`, `reading`, `context_stage` for the row."""
    shadow: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortDecision:
    """How long the turn may think."""

    level: Level | None = None
    """None where the router decides no effort; the client's own cap may stand all the same."""
    thinking: Literal["on", "off", "off_client"] = "on"
    cap: int | None = None
    """Reasoning tokens, before the answer reserve; None: no cap."""
    budget_source: Literal["class", "profile", "client"] | None = None
    note_level: Level | None = None
    """The class's level, whose sentence the note has (EFF-008); None: no sentence."""
    note_skipped: str | None = None
    """`client_off`, `model_fit`."""
    size: Literal["small", "medium", "large"] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    shadow: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideServing:
    """How a side request is served (SES-012, SES-013)."""

    shape: str
    client: str
    kind: str
    cap: int
    """Output tokens, the client's own limit counted."""
    thinking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What the request's task changes. The defaults change nothing at all."""

    under_plan: bool = False
    """The answer-side rules (ANS-001 to ANS-003) and the kind's reasoning format (PRF-021) hold."""
    replays: tuple[LiveNote, ...] = ()
    note: NewNote | None = None
    close_thinking: bool = False
    """Swap the open block at the prompt's end for the closed one (EFF-004)."""
    decides_cap: bool = False
    """`cap` holds, None included; else the client's own cap does."""
    cap: int | None = None
    is_clients_cap: bool = False
    """The number is the client's; how it is closed is the router's (MON-038)."""
    limit: int | None = None
    """The most output tokens; None leaves the request's."""
    side: SideServing | None = None
    sampling: SamplingDecision = GREEDY
    """In place of the client's or the server's own: `rules` are the engine's that are replaced."""
    drop_ngram: bool = False
    secret_mask: Switch = "off"
    hidden_session: str | None = None
    """The key under which hidden tokens of earlier answers may be put back (ANS-004)."""


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterRow:
    """A row of kind `route` or `side`: the columns of the journal's that the router fills (JRN-002)."""

    kind: Literal["route", "side"]
    session_key: str
    mode: Mode
    profile: str
    client_kind: str
    class_: str | None = None
    effort: str | None = None
    score: float | None = None
    """The class's confidence."""
    decision: str | None = None
    """The class, or a side request's shape."""
    action: str | None = None
    reason: str | None = None
    """Where the class comes from."""
    hidden_tokens: int | None = None
    position: int | None = None
    """Of the turn's new note."""
    text_hash: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything decided for one request."""

    mode: Mode
    profile: str
    turn: TurnKind
    session: SessionView
    class_decision: ClassDecision | None = None
    effort: EffortDecision | None = None
    effects: Effects = NO_EFFECTS
    place: str | None = None
    """The chain of a note that this turn adds (see notes.py)."""
    delta: SessionDelta | None = None
    """To be committed when the prompt is placed; None where the session stays as it is."""
    row: RouterRow | None = None
    """None: raw, or a text completion served raw."""
