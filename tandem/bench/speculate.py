"""What speculation gains by the kind of text: tokens a round, and tokens a second beside engines without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tandem.bench.progress import bar
from tandem.bench.report import Report
from tandem.bench.stats import interleaved, ratio, summary
from tandem.bench.subject import BenchError, Subject
from tandem.bench.workloads import WORKLOADS, Workload

__all__ = ["TOKENS", "WINDOW", "speculate"]

TOKENS = 96
WINDOW = 3_072
"""Enough for every workload and its answer."""

FRESH, COPIED = 1.3, 3.0
"""Aims against llama.cpp (issue 7): where the text is new, and where the answer copies."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """One prompt on one engine: tokens a second read and written, and tokens a round where it counts rounds."""

    read: float
    written: float
    a_round: float | None


def speculate(
    subjects: Mapping[str, Subject],
    encode: Callable[[str], list[int]],
    *,
    rounds: int,
    tokens: int = TOKENS,
    window: int = WINDOW,
    workloads: Mapping[str, Workload] = WORKLOADS,
) -> Report:
    """Every workload on every engine, read cold and gone on with for `tokens` tokens."""
    rows = list[tuple[str, ...]]()
    for name, workload in workloads.items():
        cases = [encode(workload(number)) for number in range(rounds)]
        if max(map(len, cases)) + tokens >= window:
            raise BenchError(f"{name} takes {max(map(len, cases))} tokens; a window of {window} is too short")

        def measure(subject: Subject, ids: Sequence[int]) -> _Taken:
            return _measure(subject, ids, tokens)

        with bar(name, len(cases) * len(subjects)) as done:
            taken = interleaved(subjects, cases, measure, done)
        rows += _rows(name, len(cases[0]), taken)
    return Report(
        f"Speculation: {tokens} tokens after each text, greedy, {rounds} interleaved rounds",
        ("text, its tokens", "engine", "reads/s", "writes/s", "lowest to highest", "a round", "ours / its", "aim"),
        tuple(rows),
    )


def _measure(subject: Subject, ids: Sequence[int], tokens: int) -> _Taken:
    read = len(ids) / subject.prefill(ids)
    before = subject.rounds()
    written = 1 / subject.decode(ids, tokens)
    after = subject.rounds()
    # The first token is the prefill's: it takes a round that is not in the time.
    a_round = None if before is None or after is None else tokens / (after - before - 1)
    return _Taken(read, written, a_round)


def _rows(name: str, length: int, taken: Mapping[str, Sequence[_Taken]]) -> list[tuple[str, ...]]:
    rows = list[tuple[str, ...]]()
    ours, *_ = taken
    for engine, found in taken.items():
        written = summary([each.written for each in found])
        counted = [each.a_round for each in found if each.a_round is not None]
        against = ratio([each.written for each in taken[ours]], [each.written for each in found])
        rows.append(
            (
                f"{name}, {length:,}",
                engine,
                f"{summary([each.read for each in found]).median:,.0f}",
                f"{written.median:,.1f}",
                f"{written.low:,.1f} to {written.high:,.1f}",
                f"{summary(counted).median:.2f}" if counted else "",
                "" if engine == ours else f"{against:.2f} x",
                _aim(name) if engine.startswith("llama.cpp") else "",
            )
        )
    return rows


def _aim(name: str) -> str:
    return f">= {FRESH if name.startswith('fresh') else COPIED:g} x"
