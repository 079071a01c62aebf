"""What a rule of the monitor may do: the closed list of actions, and which of them each safe point permits (MON-026 to
MON-030).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

__all__ = [
    "ACTS",
    "KINDS",
    "PERMITTED",
    "Action",
    "ActionKind",
    "Inquiry",
    "SafePoint",
]

SafePoint: TypeAlias = Literal["SP1", "SP2", "SP3", "SP4"]
"""Round border; end token taken by the model; answer complete with held calls; prompt planned and nothing read."""
ActionKind: TypeAlias = Literal[
    "PASS",
    "NOTIFY",
    "CLOSE_REASONING",
    "CONTINUE_HIDDEN",
    "REPAIR_CALL",
    "REGENERATE_CALL",
    "PROMPT_TAIL_NOTE",
    "SET_THINK_BUDGET",
    "GIVE_UP",
]
KINDS: Final[tuple[ActionKind, ...]] = get_args(ActionKind)
PERMITTED: Final[Mapping[SafePoint, frozenset[ActionKind]]] = MappingProxyType(
    {
        "SP1": frozenset({"PASS", "CLOSE_REASONING", "GIVE_UP"}),
        "SP2": frozenset({"PASS", "CONTINUE_HIDDEN", "GIVE_UP"}),
        "SP3": frozenset({"PASS", "REPAIR_CALL", "REGENERATE_CALL", "GIVE_UP"}),
        "SP4": frozenset({"PASS", "PROMPT_TAIL_NOTE", "SET_THINK_BUDGET", "GIVE_UP"}),
    }
)
ACTS: Final = frozenset(KINDS) - {"PASS", "NOTIFY"}
"""Those that change what the client or the model gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a rule wants done. `delta` is remembered of the session under the task's id, whatever the kind (MON-142)."""

    kind: ActionKind
    reason: str = ""
    text: str | None = None
    """What the model reads, or for `GIVE_UP` the client; None: the policy's text of that kind."""
    ids: tuple[int, ...] = ()
    """Tokens already written that are to stand as the answer behind a hidden `text` (MON-054)."""
    budget: int | None = None
    score: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    """For the row; `mode` in it lowers the task's (MON-005). No text of a prompt or an answer."""
    delta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is no action: {', '.join(KINDS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A hidden question that a tier 1 rule puts to the served model, in place (MON-060 to MON-064).

    `options` are the letters' meanings in order, A first. `then` gets the probability of each, or None where nobody
    could be asked, with the reason as its second argument.
    """

    text: str
    options: Sequence[str]
    then: Callable[[tuple[float, ...] | None, str], Action | Inquiry | None]
