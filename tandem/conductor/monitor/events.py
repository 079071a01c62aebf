"""What a rule is given: the event of its safe point, the task it serves, and a frozen view (MON-142, MON-143)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from tandem.conductor.monitor.actions import Action, ActionKind
from tandem.conductor.monitor.reasoned import Reasoned
from tandem.conductor.monitor.state import NOTHING_DONE, NOTHING_SEEN, Monitored, Progress
from tandem.engine.text.reading.trace import Trace

__all__ = [
    "BOOKKEEPING",
    "BlockEvent",
    "Event",
    "FinishEvent",
    "MonitorEvent",
    "RequestEvent",
    "Task",
    "TaskMode",
    "ToolCallEvent",
    "View",
]

TaskMode: TypeAlias = Literal["off", "shadow", "act"]
Bookkeeping: TypeAlias = Literal["OUTCOME", "LABEL", "COUNTS"]
"""What a row of the monitor has in a decision's place where it is none."""
BOOKKEEPING: tuple[Bookkeeping, ...] = get_args(Bookkeeping)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent:
    """SP4: a request whose prompt is planned, and nothing of it read."""

    messages: Sequence[Mapping[str, Any]]
    """As `Conversation` has them, after the history cut."""
    tools: Sequence[Mapping[str, Any]] = ()
    """In OpenAI's form."""
    tool_choice: Literal["auto", "none", "required", "named"] = "auto"
    n: int = 1
    prompt_tokens: int = 0
    in_think: bool = False
    """The prompt leaves the thinking block open, or the model may open one."""
    max_tokens: int = 0
    client_budget: int | None = None
    client_thinking_off: bool = False
    """A field of the client turned thinking off."""
    client_kind: str = "anon"
    constrained: bool = False
    """A grammar, a document's schema or forced tools."""
    profile: str | None = None
    cls: str | None = None
    """The turn's class."""
    effort: str | None = None
    logprobs: bool = False
    single_call: bool = False
    """`parallel_tool_calls: false`."""
    live: bool = False
    """Calls go out as they are written, unless they are held."""
    compacted: bool = False
    """The first request behind a compaction."""
    escape_noted: bool = False
    """The router's own note against a repeat is in the prompt, new or from before (SMP-006)."""
    has_place: bool = True
    """A note has a place behind the last message."""
    note_room: int | None = None
    """How many tokens it may have there; None: as many as the window holds."""
    noted: frozenset[str] = frozenset()
    """Hashes of the notes that the monitor gave this very request when it came before (NOTE-002)."""
    now: float = 0.0
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvent:
    """SP1: a border between two rounds, inside the reasoning or, for D3, in the answer's text."""

    reasoning_tokens: int
    answer_tokens: int
    inside: bool
    """The thinking block is open."""
    position: int = 0
    """Row of the next token."""
    find_arm: Callable[[], str | None] = field(default=lambda: None, repr=False, compare=False)
    find_share: Callable[[], float] = field(default=lambda: 0.0, repr=False, compare=False)

    @property
    def arm(self) -> str | None:
        """Which arm of D1 fires here, by the parameters of the first such task; found when it is asked for."""
        return self.find_arm()

    @property
    def history_share(self) -> float:
        """Share of the newest sequences that the session's earlier reasoning has (D1b); likewise."""
        return self.find_share()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishEvent:
    """SP2: the model has chosen an end token, which is not committed."""

    inside: bool
    answer: str
    """The answer's text so far, calls left out."""
    position: int = 0
    has_calls: bool = False
    """A call is sent or held, whole or not."""
    reasoned: Reasoned | None = None
    """Calls that the reasoning ends with; looked for where the answer is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEvent:
    """SP3: one call of a complete answer, or a block that the parser rejected; for A1 an open block at a border."""

    name: str
    arguments: str
    """JSON; of a rejected block and of an open one "": see `text`."""
    index: int = 0
    schema: Mapping[str, Any] | None = None
    """The tool's parameters; None: it is not offered, or has none."""
    offered: bool = True
    final: bool = True
    """False: the block is still being written."""
    text: str = ""
    """The block as it is written."""
    why: str | None = None
    """The parser's reason, of a rejected block."""
    complete: bool = True
    """The block is closed."""
    ended: str | None = None
    """How the answer ended where it was not by the model's own end token: `stop`, `length`, `timeout`."""
    others: Sequence[ToolCallEvent] = ()
    """All of the set, this one among them, in order; empty for an open block."""
    position: int = 0


Event: TypeAlias = RequestEvent | BlockEvent | FinishEvent | ToolCallEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of the policy as one request has it: the profile's overrides are laid over it."""

    id: str
    rule: str
    mode: TaskMode
    tier: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    """Thresholds and texts; `notes`, `reminder` … by the names of the rule's schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a rule may read besides the event. A new one is made for each look."""

    req: RequestEvent
    trace: Trace
    """What the answer has said so far; to be read, never written."""
    session: Monitored = NOTHING_SEEN
    progress: Progress = NOTHING_DONE
    """The session's, this request's own results among it."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The policy's `texts`."""
    done: tuple[MonitorEvent, ...] = ()
    """What the monitor has decided of this request so far, passes with a reason among them."""

    def acts_of(self, task: str) -> int:
        """How often the task has acted in this request."""
        return sum(event.task == task and event.acted is not None for event in self.done)

    def kept(self, task: str) -> Mapping[str, Any]:
        """What the task had remembered of the session, this request's own left out."""
        return self.session.kept.get(task, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorEvent:
    """One decision: one row of kind `monitor`, one log line, one point of the metrics (MON-146, MON-148)."""

    task: str
    rule: str | None
    tier: int
    sp: Literal["SP1", "SP2", "SP3", "SP4", "watch", "label"]
    mode: TaskMode
    """The task's effective mode."""
    decision: ActionKind | Bookkeeping
    """What was found to be due."""
    acted: ActionKind | None
    """What was done of it; None where it was only journaled."""
    reason: str
    score: float | None = None
    text: str | None = None
    """The hidden text, or the sentence that the client got: for the journal's table of texts, and no log."""
    hidden_tokens: int = 0
    position: int | None = None
    reasoning_cut: int | None = None
    """Tokens of reasoning at a close."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    action: Action | None = None

    @property
    def is_decision(self) -> bool:
        """Not bookkeeping, which neither log nor metrics speak of."""
        return self.decision not in BOOKKEEPING
