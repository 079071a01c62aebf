"""Decode, prefill and the warm second turn of several engines side by side, as tables.

The first subject is ours; the others are compared with it round by round. The aims are the project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tandem.bench.progress import bar
from tandem.bench.prompts import Prompts
from tandem.bench.report import Report
from tandem.bench.stats import interleaved, ratio, summary
from tandem.bench.subject import Subject

__all__ = ["LENGTHS", "ROOM", "WINDOW", "decode", "prefill", "second_turn"]

C = TypeVar("C")
T = TypeVar("T")

LENGTHS = (128, 512, 1024, 2000)
ROOM = 256
"""Tokens that a measurement may need beside the prompt it is about."""
WINDOW = LENGTHS[-1] + ROOM
"""Enough for every measurement here."""

DECODE_AIMS = {"transformers": ">= 3 x", "llama.cpp": ">= 1 x"}
PREFILL_AIMS = {"llama.cpp": ">= 0.7 x"}
SECOND_TURN_AIM = "<= 3 steps"

CONTEXT, TOKENS = 128, 64
ANSWER, MORE, STEPS = 32, 16, 16

Subjects = Mapping[str, Subject]


def decode(
    subjects: Subjects, prompts: Prompts, *, rounds: int, context: int = CONTEXT, tokens: int = TOKENS
) -> Report:
    """Tokens a second while writing `tokens` tokens after `context` ones."""
    cases = [prompts.fresh(context) for _ in range(rounds)]

    def measure(subject: Subject, ids: Sequence[int]) -> float:
        return 1 / subject.decode(ids, tokens)

    rates = _taken("decode", subjects, cases, measure)
    ours, *_ = rates.values()
    return Report(
        f"Decode: {tokens} tokens after {context}, greedy, {rounds} interleaved rounds",
        ("engine", "tokens/s", "lowest to highest", "ours / its", "aim"),
        tuple((name, *_rate(values), *_against(name, ours, values, DECODE_AIMS)) for name, values in rates.items()),
    )


def prefill(subjects: Subjects, prompts: Prompts, *, rounds: int, lengths: Sequence[int] = LENGTHS) -> Report:
    """Tokens a second while reading prompts of each of `lengths`, nothing cached."""
    rows: list[tuple[str, ...]] = []
    for length in lengths:
        cases = [prompts.fresh(length) for _ in range(rounds)]

        def measure(subject: Subject, ids: Sequence[int]) -> float:
            return len(ids) / subject.prefill(ids)

        rates = _taken(f"prefill {length:,}", subjects, cases, measure)
        ours, *_ = rates.values()
        for name, values in rates.items():
            rows.append((f"{length:,}", name, *_rate(values), *_against(name, ours, values, PREFILL_AIMS)))
    return Report(
        f"Prefill: cold prompts, {rounds} interleaved rounds",
        ("tokens", "engine", "tokens/s", "lowest to highest", "ours / its", "aim"),
        tuple(rows),
    )


def second_turn(subjects: Subjects, prompts: Prompts, *, rounds: int, length: int = LENGTHS[-1]) -> Report:
    """Time to the first token of a conversation's second turn, in decode steps of the same engine at that length."""
    cases = [(prompts.fresh(length - ANSWER), prompts.fresh(MORE)) for _ in range(rounds)]

    def measure(subject: Subject, case: tuple[list[int], list[int]]) -> tuple[float, float] | None:
        ids, more = case
        turn = subject.second_turn(ids, ANSWER, more, STEPS)
        return None if turn is None else (turn.first_token_s, turn.first_token_s / turn.step_s)

    turns = _taken("second turn", subjects, cases, measure)
    rows = []
    for index, (name, taken) in enumerate(turns.items()):
        values = [each for each in taken if each is not None]
        if not values:
            rows.append((name, "keeps no prefix", "", "", ""))
            continue
        times, steps = (summary(each) for each in zip(*values, strict=True))
        aim = SECOND_TURN_AIM if index == 0 else ""
        spread = f"{steps.low:.1f} to {steps.high:.1f}"
        rows.append((name, f"{times.median * 1e3:.1f} ms", f"{steps.median:.1f} steps", spread, aim))
    return Report(
        f"Second turn of a conversation of {length:,} tokens: first token after {MORE} new ones, {rounds} rounds",
        ("engine", "first token", "in its own decode steps", "lowest to highest", "aim"),
        tuple(rows),
    )


def _taken(
    title: str, subjects: Subjects, cases: Sequence[C], measure: Callable[[Subject, C], T]
) -> dict[str, list[T]]:
    with bar(title, len(cases) * len(subjects)) as done:
        return interleaved(subjects, cases, measure, done)


def _rate(values: Sequence[float]) -> tuple[str, str]:
    found = summary(values)
    return f"{found.median:,.1f}", f"{found.low:,.1f} to {found.high:,.1f}"


def _against(name: str, ours: Sequence[float], theirs: Sequence[float], aims: Mapping[str, str]) -> tuple[str, str]:
    return ("", "") if theirs is ours else (f"{ratio(ours, theirs):.2f} x", aims.get(name, ""))
