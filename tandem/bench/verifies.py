"""What a round costs by its rows, and where the time goes: what a drafter has to earn (ENG-061)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tandem.bench.ops import GROUPS, OpTimer
from tandem.bench.ours import GREEDY, read
from tandem.bench.progress import bar
from tandem.bench.prompts import Prompts
from tandem.bench.report import Report
from tandem.engine.verbs import EMPTY_TREE, Engine, Tree

__all__ = ["ROWS", "verifies"]

ROWS = (1, 2, 4, 8, 16, 32)
SHOWN = ("layer matmuls", "head matmul", "attention", "recurrence", "sampler")
"""Groups with a column of their own."""


def verifies(engine: Engine[Any, Any], prompts: Prompts, *, context: int = 512, rounds: int = 7) -> Report:
    """The table for rounds behind about `context` tokens, whose drafts are chains that are nearly always wrong.

    A column's time is a mean over a third of the rounds, in which every call is timed; what it takes to time them is
    not in it. Python is what an untimed round leaves for it.
    """
    ids = prompts.fresh(context)
    seq = read(engine, ids)
    _round(engine, seq, EMPTY_TREE)  # its row was kept by the prefill
    drafts, wholes = list[float](), {count: list[float]() for count in ROWS}
    timers, timed = {count: OpTimer() for count in ROWS}, max(1, rounds // 3)
    with bar("verifies", rounds + timed) as done:
        for at in range(rounds + timed):
            for count in ROWS:
                tree = _chain(ids[: count - 1])
                start = time.perf_counter()
                engine.draft(seq, count)
                drafts.append(time.perf_counter() - start)
                if at < rounds:
                    wholes[count].append(_round(engine, seq, tree))
                else:
                    with timers[count]:
                        _round(engine, seq, tree)
            done()
    engine.close(seq)
    whole = {count: statistics.median(taken) for count, taken in wholes.items()}
    parts = {count: _parts(timer, timed, whole[count]) for count, timer in timers.items()}
    return _report(whole, parts, statistics.median(drafts), f"{context} tokens, median of {rounds}")


def _chain(tokens: Sequence[int]) -> Tree:
    return Tree(tuple(tokens), tuple(range(-1, len(tokens) - 1)))


def _round(engine: Engine[Any, Any], seq: Any, tree: Tree) -> float:
    """Seconds of a round with that draft, up to the commit that the next one makes."""
    start = time.perf_counter()
    [rows] = engine.verify([(seq, tree)])
    engine.accept(seq, rows, GREEDY)
    return time.perf_counter() - start


def _parts(timer: OpTimer, rounds: int, whole: float) -> dict[str, float]:
    """Seconds of a round by group."""
    spent = {group: timer.seconds[group] / rounds for group in GROUPS}
    shown = {group: spent[group] for group in SHOWN}
    others = sum(spent.values()) - sum(shown.values())
    return shown | {"other calls": others, "Python": max(0.0, whole - sum(spent.values()))}


def _report(whole: Mapping[int, float], parts: Mapping[int, Mapping[str, float]], draft: float, title: str) -> Report:
    names = [name for name in parts[1] if name == "Python" or any(each[name] for each in parts.values())]
    one = whole[1]
    return Report(
        f"One round by its rows, behind {title}: milliseconds",
        ("rows", "round", "of one row's", *names),
        tuple(
            (
                f"{count}",
                f"{1e3 * taken:.1f}",
                f"{taken / one:.2f} x",
                *(f"{1e3 * parts[count][name]:.1f}" for name in names),
            )
            for count, taken in whole.items()
        ),
        (f"A lookup's draft takes {1e3 * draft:.2f} ms.",),
    )
