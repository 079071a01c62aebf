"""What one turn is sampled with (SMP-001 to SMP-008). Pure: its seed is one of the facts.

A regenerate comes first, then a turn with tools that ends in a repeat, then the profile's default for turns with tools.
Any sampling field of the client is used as sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from tandem.conductor.monitor.call_runs import WAIT_S, turn_calls, waits
from tandem.conductor.monitor.state import NOTHING_SEEN, Monitored
from tandem.conductor.router.client_kind import ClientKind
from tandem.conductor.sampling.loop_escape import Repeat, repeat_at_end
from tandem.conductor.sampling.regenerate import Asked, regenerate
from tandem.conductor.sampling.rules import Draw, SamplingKit

__all__ = ["GREEDY", "SamplingDecision", "SamplingFacts", "Why", "decide_sampling"]

Why: TypeAlias = Literal["regenerate", "loop_escape", "card"]
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFacts:
    """What of a request and its session is looked at."""

    messages: Sequence[Mapping[str, Any]]
    headers: Mapping[str, str]
    kind: ClientKind
    now: float
    offers_tools: bool
    is_turn: bool = True
    """No side request, compaction or text completion: those are never sampled."""
    digest: str | None = None
    """Of the conversation, where a user's message ends it."""
    asked: Iterable[Asked] = ()
    """The session's user turns."""
    client_params: Collection[str] = ()
    """Of `temperature`, `top_p`, `top_k`, `min_p`, `seed` those the client sent."""
    loop_escape: bool = False
    card: bool = False
    """`sampling.agentic_default: card`."""
    turn: int = 1
    """The number of this turn in its session."""
    escaping_since: int = 0
    """The turn since which the session leaves a loop; 0: it does not."""
    seen: Monitored = NOTHING_SEEN
    """What the monitor knows of the session: when calls went out and came back."""
    wait_s: float = WAIT_S
    """C3's: a result that took this long was waited for."""
    seed: int = 0
    """Drawn for this request (SMP-002)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingDecision:
    """How the turn is sampled. The defaults leave it as it is."""

    why: Why | None = None
    draw: Draw | None = None
    """In place of the client's rules; None with a `why`: the client's own fields hold."""
    seed: int = 0
    by: Literal["header", "conversation"] | None = None
    """What made it a regenerate."""
    note: str | None = None
    """At the prompt's tail (C3's escape text)."""
    escaping_since: int | None = None
    """To be kept by the session: the turn the escape began with, 0 where it ended, None where nothing changes."""
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """`client_params` and `loop_escape` of the row (JRN-006)."""

    @property
    def chosen(self) -> Why | None:
        """By what rule the server chose the sampling; None where the client's or the default holds (API-159)."""
        return None if self.draw is None else self.why

    @property
    def rules(self) -> dict[str, Any]:
        """What of the engine's rules is replaced, by name; empty where the turn is sampled as its client has it."""
        return {} if self.draw is None else {**self.draw.told(), "seed": self.seed}

    def log(self, request_id: str) -> str | None:
        """The one line of the log (SMP-004, SMP-008)."""
        drawn = "client" if self.draw is None else " ".join(f"{name}={value}" for name, value in self.rules.items())
        if self.why == "regenerate":
            return f"[regenerate] {request_id} by={self.by} {drawn}"
        loop = self.extra.get("loop_escape")
        if loop is None:
            return None
        if loop["state"] == "back":
            return f"[loop-escape] {request_id} back since_turn={loop['since_turn']} turn={loop['back_at_turn']}"
        return f"[loop-escape] {request_id} on why={loop['why']} since_turn={loop['since_turn']} {drawn}"


GREEDY = SamplingDecision()


def decide_sampling(kit: SamplingKit, facts: SamplingFacts) -> SamplingDecision:
    if not facts.is_turn:
        return GREEDY
    by = regenerate(facts.headers, facts.kind, facts.digest, facts.asked, facts.now) if kit.regenerates else None
    if by is not None:
        return _regenerate(kit, facts, by)
    repeat = None
    if facts.loop_escape and facts.offers_tools and not facts.client_params:
        waited = waits(turn_calls(facts.messages), facts.seen, facts.now, facts.wait_s)
        repeat = repeat_at_end(facts.messages, waited=waited)
    if repeat is not None:
        return _escape(kit, facts, repeat)
    draws = facts.card and facts.offers_tools and not facts.client_params
    return SamplingDecision(
        why="card" if draws else None,
        draw=kit.card if draws else None,
        seed=facts.seed,
        escaping_since=0 if facts.escaping_since else None,
        extra={"loop_escape": _back(facts)} if facts.escaping_since else NOTHING,
    )


def _regenerate(kit: SamplingKit, facts: SamplingFacts, by: Literal["header", "conversation"]) -> SamplingDecision:
    if facts.client_params:
        return SamplingDecision(why="regenerate", by=by, extra={"client_params": sorted(facts.client_params)})
    return SamplingDecision(why="regenerate", by=by, draw=kit.regenerate, seed=facts.seed)


def _escape(kit: SamplingKit, facts: SamplingFacts, repeat: Repeat) -> SamplingDecision:
    since = facts.escaping_since or facts.turn
    told = {
        "state": "on",
        "why": repeat.why,
        "name": repeat.name,
        "since_turn": since,
        "turn": facts.turn,
        "sampling": kit.card.told(),
        "seed": facts.seed,
    }
    return SamplingDecision(
        why="loop_escape",
        draw=kit.card,
        seed=facts.seed,
        note=repeat.note(kit.escape_text),
        escaping_since=since,
        extra={"loop_escape": told},
    )


def _back(facts: SamplingFacts) -> dict[str, Any]:
    return {"state": "back", "since_turn": facts.escaping_since, "back_at_turn": facts.turn}
