"""The registry of rules: each file in `rules` registers one, and the policy's schema is made of what they declare.

    @register("reasoning_backstop", "SP1", params={"max_tokens": {"type": "integer"}}, required=("max_tokens",), doc="")
    def reasoning_backstop(event: BlockEvent, task: Task, view: View) -> Action | None: ...

A rule is a pure function; what it wants remembered rides in `Action.delta` (MON-142). A rule that asks the served model
returns an `Inquiry` (tier 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, get_args

from tandem.conductor.monitor.actions import Action, Inquiry, SafePoint
from tandem.conductor.monitor.events import MonitorEvent, Task, View

__all__ = [
    "NEEDED",
    "PLACEHOLDERS",
    "AtEnd",
    "Holds",
    "Rule",
    "RuleFn",
    "overridable",
    "register",
    "registered",
    "text",
]

RuleFn: TypeAlias = Callable[..., Action | Inquiry | None]
"""`fn(event, task, view)`: the event is that of the rule's safe point."""
Holds: TypeAlias = Callable[[Task, View], bool]
AtEnd: TypeAlias = Callable[[Task, View], tuple[Sequence[MonitorEvent], Mapping[str, Any]]]
FnT = TypeVar("FnT", bound=RuleFn)
OVERRIDABLE = "x-overridable"
"""Keyword of a parameter's schema: a profile may set it beside `tasks.<id>.mode` (MON-010)."""
PLACEHOLDERS = "x-placeholders"
"""Keyword of a text's schema: the only names that may stand in braces in it (MON-019)."""
NEEDED = "x-needed"
"""The same: those that must."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it is registered."""

    name: str
    safe_point: SafePoint
    params: Mapping[str, Mapping[str, Any]]
    """JSON Schema of each parameter, by name."""
    required: tuple[str, ...]
    doc: str
    fn: RuleFn
    holds: Holds | None = None
    """SP3: whether this request's calls are to be held for it (MON-074); None: wherever it may act."""
    open_blocks: bool = False
    """SP3: it looks at the block that is being written, and at no complete call."""
    lets_go: bool = False
    """SP3: where it may not rewrite, its finding lets the calls go instead of ending the turn (MON-097)."""
    at_request: RuleFn | None = None
    """Its half at SP4, under the same task, where it has one: `fn(event: RequestEvent, task, view)` (MON-158)."""
    at_end: AtEnd | None = None
    """What is said of earlier acts when the request is over (MON-071): labels, and what is remembered of the session
    under the task's id. `view.done` has all that was decided of the request.
    """


_RULES: dict[str, Rule] = {}


def register(
    name: str,
    safe_point: SafePoint,
    params: Mapping[str, Mapping[str, Any]],
    required: Sequence[str] = (),
    doc: str = "",
    *,
    holds: Holds | None = None,
    open_blocks: bool = False,
    lets_go: bool = False,
    at_request: RuleFn | None = None,
    at_end: AtEnd | None = None,
) -> Callable[[FnT], FnT]:
    """Make a rule known by `name`; the last five are as `Rule` has them.

    Raises `ValueError` for another place than SP1 to SP4, for a name that is taken by another function, and for a
    required parameter without a schema.
    """
    if safe_point not in get_args(SafePoint):
        raise ValueError(f"{name}: a rule acts at SP1 to SP4, not at {safe_point}")
    if missing := [each for each in required if each not in params]:
        raise ValueError(f"{name}: no schema for {', '.join(missing)}")

    def add(fn: FnT) -> FnT:
        found = _RULES.get(name)
        if found is not None and found.fn.__qualname__ != fn.__qualname__:
            raise ValueError(f"{name} is registered already")
        given = (holds, open_blocks, lets_go, at_request, at_end)
        _RULES[name] = Rule(name, safe_point, dict(params), tuple(required), doc, fn, *given)
        return fn

    return add


def registered() -> Mapping[str, Rule]:
    """Every rule by its name; `tandem.conductor.monitor.rules` must have been imported."""
    return dict(_RULES)


def overridable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that a profile may set."""
    return {**schema, OVERRIDABLE: True}


def text(*placeholders: str, needed: Sequence[str] = ()) -> dict[str, Any]:
    """The schema of a wording, which may name `placeholders` in braces, and must name those that are `needed`."""
    wanted = {NEEDED: list(needed)} if needed else {}
    return {"type": "string", PLACEHOLDERS: list(placeholders), **wanted}
