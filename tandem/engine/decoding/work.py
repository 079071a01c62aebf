"""The pieces of work a `Generation` asks for, what comes back, and the one function that performs them on an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tandem.engine.decoding.language import allowed
from tandem.engine.verbs import Accepted, Engine, Prefilled, RowsT, SamplingRules, SeqT

__all__ = [
    "Answer",
    "Ask",
    "Ended",
    "Force",
    "Forced",
    "Prefill",
    "Result",
    "Round",
    "Trim",
    "Trimmed",
    "Work",
    "perform",
]


@dataclass(frozen=True, slots=True)
class Prefill:
    """Read the prompt up to row `upto`: one chunk of the grid."""

    upto: int


@dataclass(frozen=True, slots=True)
class Round:
    """Draft, verify, accept; commit at most `limit` tokens."""

    limit: int


@dataclass(frozen=True, slots=True)
class Force:
    """Forward these ids as if the model had written them; `visible` ones are read as output."""

    ids: tuple[int, ...]
    visible: bool
    closes: bool = False
    """Hidden ids that close the reasoning: what comes behind them is the answer."""
    shown: int = 0
    """Of hidden ids, how many at their end a history has anyway: its template writes them (MON-137)."""
    dropped: int = 0
    """How many visible tokens right before these are hidden with them: a set that was held and dropped (MON-077)."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a hidden question in place; leaves no trace in the sequence."""

    ids: tuple[int, ...]
    options: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trim:
    """Keep the first `count` tokens of the last round: the answer has ended, or goes on, behind them (ENG-094)."""

    count: int


@dataclass(frozen=True, slots=True)
class Ended:
    """No work is left; the last deltas hold the `Finish`."""


@dataclass(frozen=True, slots=True)
class Forced:
    """The ids of a `Force` stand in the sequence."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Probabilities of the options of an `Ask`, in their order."""

    probabilities: tuple[float, ...]
    ms: float = 0.0
    """Since it was asked, the wait for the device included; the generation fills it in."""


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What was behind the end stands in the sequence no more."""


Work: TypeAlias = Prefill | Round | Force | Ask | Trim
Result: TypeAlias = Prefilled | Accepted | Forced | Answer | Trimmed


def perform(engine: Engine[SeqT, RowsT], seq: SeqT, work: Work, rules: SamplingRules) -> Result:
    """Do one piece of work on one sequence; what a slot, a test and an offline tool run on the engine thread."""
    match work:
        case Prefill(upto):
            return engine.prefill(seq, upto)
        case Round(limit):
            tree = allowed(engine.draft(seq, limit), rules.mask)
            [rows] = engine.verify([(seq, tree)])
            return engine.accept(seq, rows, rules)
        case Force(ids, visible, _, shown, dropped):
            border = len(ids) - shown
            engine.force(seq, ids[:border], hidden=not visible, dropped=dropped)
            if shown:
                engine.force(seq, ids[border:])
            return Forced(ids)
        case Ask(ids, options):
            return Answer(engine.ask(seq, ids, options))
        case Trim(count):
            engine.trim(seq, count)
            return Trimmed()
        case _:
            assert_never(work)
