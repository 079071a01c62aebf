"""How long a turn may think (EFF-001 to EFF-017), in the order of EFF-002.

The router's level comes first: the class's, cut by the task's size, then the level of a tool turn and what raises it.
The client has the last word: off is off under every profile, a number takes the place of the cap, a word is a ceiling
on it. The answer reserve is the server's and comes after all of it, where the output limit is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from tandem.conductor.documents import Documents, Level, Profile
from tandem.conductor.documents.router import Budgets
from tandem.conductor.router.classes import class_effort
from tandem.conductor.router.facts import AskedThinking
from tandem.conductor.router.history import Checker
from tandem.conductor.router.plan import EffortDecision, TurnKind
from tandem.conductor.router.size import Size

__all__ = ["LEVELS", "EffortFacts", "decide_effort"]

LEVELS: Final[tuple[Level, ...]] = ("off", "low", "medium", "high", "xhigh")
ON_RESULTS: Final[tuple[TurnKind, ...]] = ("tool", "media")
"""Turns that go on from tool results (EFF-007)."""
WORDS: Final[Mapping[str, Level]] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "xhigh",
}
"""A client's words by the level whose cap they are a ceiling with; the off words are no ceiling but a switch."""
WORD_CAPS: Final = Budgets()
"""What a word promises whatever the router document says: the same as on the raw path (API-088)."""
NOTHING_ASKED: Final = AskedThinking()
Source: TypeAlias = Literal["class", "size", "tool_turn", "checker", "outcome", "argloop_retry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortFacts:
    """What the effort of a turn is found from."""

    documents: Documents
    profile: Profile
    class_id: str
    turn: TurnKind
    asked: AskedThinking = NOTHING_ASKED
    decides: bool = True
    """False where `decisions.effort` is off."""
    applies: bool = True
    """False where it is in shadow under a plan that is on: what is found goes to `EffortDecision.shadow`."""
    size: Size = "small"
    checker: Checker | None = None
    """In the newest tool result."""
    outcome: Level | None = None
    """The level that an outcome in act asks for (EFF-010)."""
    argloop_retry: bool = False
    """The argument loop guard has stopped the call before (EFF-011)."""
    has_note: bool = True
    """False where the model's fit has no effort sentence (FIT-005)."""


def decide_effort(facts: EffortFacts) -> EffortDecision:
    level = class_effort(facts.documents, facts.profile, facts.class_id) if facts.decides else None
    if level is None:
        return _by_client(facts.asked)
    found = _decided(facts, level)
    if facts.applies:
        return found
    told = {"effort": found.level, "thinking": found.thinking, "budget": found.cap}
    extra = {name: value for name, value in found.extra.items() if name not in ("client_word", "client_thinking")}
    own = _by_client(facts.asked)
    return replace(own, size=found.size, extra={**own.extra, **extra}, shadow={**found.shadow, **told})


@dataclass(slots=True)
class _Level:
    """The level on its way through EFF-002's steps."""

    level: Level
    source: Source = "class"

    def set(self, level: Level, source: Source) -> None:
        if level != self.level:
            self.level, self.source = level, source

    def raise_to(self, level: Level, source: Source) -> None:
        self.set(max(self.level, level, key=LEVELS.index), source)


def _decided(facts: EffortFacts, of_class: Level) -> EffortDecision:
    extra: dict[str, Any] = {}
    shadow: dict[str, Any] = {}
    sized = _sized(facts, of_class, extra, shadow)
    off = facts.asked.enabled is False
    level = _level(facts, of_class, sized, extra, client_off=off)
    if level.source != "class":
        extra |= {"effort_source": level.source, "class_effort": of_class}
    skipped = None if facts.has_note else "model_fit"
    if off:
        extra["client_thinking"] = {"field": facts.asked.switch, "class_effort": of_class}
        return EffortDecision(
            thinking="off_client", note_skipped="client_off", size=facts.size, extra=extra, shadow=shadow
        )
    decision = _capped(facts, level.level, extra)
    speaks = facts.has_note and sized != "off"
    return replace(
        decision,
        note_level=sized if speaks else None,
        note_skipped=skipped,
        size=facts.size,
        extra=extra,
        shadow=shadow,
    )


def _sized(facts: EffortFacts, of_class: Level, extra: dict[str, Any], shadow: dict[str, Any]) -> Level:
    """The class's level, or in `on` that of the task's size with the class's as its ceiling (EFF-006)."""
    mode, policy = facts.profile.thinking.by_size, facts.documents.policy(facts.class_id)
    if mode == "off" or policy is None:
        return of_class
    by_size: Level = getattr(policy.effort_by_size, facts.size) or of_class
    sized = min(by_size, of_class, key=LEVELS.index)
    extra["size"] = facts.size
    if mode == "shadow":
        shadow["size"] = {"size": facts.size, "effort": sized}
        return of_class
    return sized


def _level(facts: EffortFacts, of_class: Level, sized: Level, extra: dict[str, Any], *, client_off: bool) -> _Level:
    """The level the router would have: tool turn, checker, outcome, argument loop."""
    level = _Level(of_class)
    level.set(sized, "size")
    if facts.turn in ON_RESULTS:
        own = facts.profile.thinking.tool_turn_effort or facts.documents.router.structural.tool_turn_effort
        if own != "inherit":
            level.set(own, "tool_turn")
    base = level.level
    if facts.turn in ON_RESULTS and facts.checker is not None and facts.checker.verdict == "FAIL":
        level.raise_to(_above(base), "checker")
    if facts.outcome is not None:
        level.raise_to(max(facts.outcome, of_class, key=LEVELS.index), "outcome")
    if facts.argloop_retry:
        if not client_off:
            level.raise_to(max(_above(base), "medium", key=LEVELS.index), "argloop_retry")
        extra["argloop_retry"] = {"raised": not client_off, "effort": None if client_off else level.level}
    return level


def _capped(facts: EffortFacts, level: Level, extra: dict[str, Any]) -> EffortDecision:
    """The level's cap under the client's number or word (EFF-013, EFF-014)."""
    asked = facts.asked
    if level == "off" and asked.enabled and not asked.number and facts.turn != "compaction":
        level = "low"  # the client keeps thinking on, and off has no cap (API-098); a summary never thinks (SES-016)
    if asked.number is not None and (level != "off" or asked.number > 0):
        return EffortDecision(level=level, cap=asked.number or None, budget_source="client")
    if level == "off":
        return EffortDecision(level=level, thinking="off")
    own = facts.profile.thinking.budgets.get(level)
    cap: int | None = own if own is not None else getattr(facts.documents.router.effort.budgets, level)
    if facts.profile.thinking.client_word == "ceiling":
        ceiling = _word_cap(asked.word)
        if ceiling is not None and (cap is None or ceiling < cap):
            cap, extra["client_word"] = ceiling, {"word": asked.word, "effort": level, "cap": ceiling}
    return EffortDecision(level=level, cap=cap, budget_source="class" if own is None else "profile")


def _by_client(asked: AskedThinking) -> EffortDecision:
    """Where the router decides nothing: the client's own number or word is the cap (EFF-015)."""
    if asked.enabled is False:
        extra = {"client_thinking": {"field": asked.switch, "class_effort": None}}
        return EffortDecision(thinking="off_client", note_skipped="client_off", extra=extra)
    if asked.number is not None:
        return EffortDecision(cap=asked.number or None, budget_source="client")
    if asked.word is not None:
        return EffortDecision(cap=_word_cap(asked.word), budget_source="client")
    return EffortDecision()


def _word_cap(word: str | None) -> int | None:
    """The cap a word is a ceiling with; None for no word, and for one without a cap."""
    level = None if word is None else WORDS.get(word)
    return None if level is None else getattr(WORD_CAPS, level)


def _above(level: Level) -> Level:
    return LEVELS[min(LEVELS.index(level) + 1, len(LEVELS) - 1)]
