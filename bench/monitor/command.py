"""`python -m bench monitor`: what the loop guards find in sound outputs and in endless ones, and what a look costs.

    python -m bench monitor [--model PATH] [--policy FILE] [--every N] [--write]

Texts are cut with the model's tokenizer and go past the guards as they would while they are written, with the
thresholds of the policy: the thoughts past D1, the answers past D3, the calls past A1. No model runs. The command ends
with 1 where a sound output is stopped, or an endless one too late.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from rich.console import Console

import tandem.conductor.monitor.rules  # noqa: F401 - registers them
from bench.monitor.judging import Judge, Vocabulary, Walk
from bench.monitor.loops import endless_outputs
from bench.monitor.outputs import normal_outputs
from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.bench.stats import percentile
from tandem.conductor.monitor.policy import body_of, policy_of, shipped_body
from tandem.config import Settings
from tandem.engine.checkpoints import embedded
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.errors import CheckpointError
from tandem.engine.fake.vocabulary import Vocabulary as FakeVocabulary

__all__ = ["command", "judge_of", "reports"]


@click.command()
@click.option("--model", type=click.Path(path_type=Path), help="Checkpoint whose tokenizer cuts the texts.")
@click.option("--policy", type=click.Path(exists=True, path_type=Path), help="A policy in place of the shipped one.")
@click.option("--every", type=click.IntRange(1), default=1, help="Only each so-manieth text.")
@click.option("--write", "keeps", is_flag=True, help="Keep the tables under bench/results/.")
def command(model: Path | None, policy: Path | None, every: int, keeps: bool) -> None:
    """Quality and cost of the monitor's loop guards."""
    here, console = machine(), Console()
    vocabulary, name = _vocabulary(model)
    judge = judge_of(vocabulary, policy)
    normal = [walk for output in normal_outputs(every) for walk in judge.normal(output)]
    endless = [judge.endless(loop) for loop in endless_outputs(every)]
    tables = reports(normal, endless)
    for table in tables:
        render(table, console)
    if keeps:
        keep("monitor", tables, (f"cut with {name}", *here.lines()), RESULTS, here.started.date())
    if any(walk.reason for walk in normal) or not all(_in_time(walk) for walk in endless):
        sys.exit(1)


def judge_of(vocabulary: Vocabulary, policy: Path | None = None) -> Judge:
    """The guards under a policy, by default the shipped one."""
    found = policy_of(shipped_body() if policy is None else body_of(policy))
    return Judge(vocabulary, found.tasks, {name: text or "" for name, text in found.texts.items()})


def reports(normal: Sequence[Walk], endless: Sequence[Walk]) -> list[Report]:
    return [_sound(normal), _loops(endless), _costs([*normal, *endless])]


def _sound(walks: Sequence[Walk]) -> Report:
    rows = []
    for kind, found in _by_kind(walks).items():
        fired = Counter(f"{walk.place}: {walk.reason}" for walk in found if walk.reason)
        told = ", ".join(f"{count} {reason}" for reason, count in fired.items()) or "-"
        rows.append((kind, str(len(found)), f"{sum(walk.tokens for walk in found):,}", told))
    stopped = sum(walk.reason is not None for walk in walks)
    outputs = sum(walk.place == "answer" for walk in walks)  # each is an answer among others
    note = f"{outputs:,} outputs, read {len(walks):,} times as thought, answer or call, {stopped} of them stopped"
    return Report(
        "sound outputs, each at the places where it belongs",
        ("kind", "read", "tokens", "stopped"),
        tuple(rows),
        (note,),
    )


def _loops(walks: Sequence[Walk]) -> Report:
    rows = []
    for kind, found in _by_kind(walks).items():
        caught = [walk for walk in found if walk.reason]
        late = [walk.late for walk in caught] or [0]
        arms = Counter(walk.reason for walk in caught)
        told = ", ".join(f"{count} {reason}" for reason, count in arms.items()) or "-"
        in_time = sum(map(_in_time, found))
        rows.append((kind, f"{in_time} of {len(found)}", f"{sorted(late)[len(late) // 2]}", str(max(late)), told))
    columns = ("kind", "in time", "median", "latest", "by")
    note = f"{len(walks)} in all; tokens are counted from the first of the loop to the stop"
    return Report("endless outputs", columns, tuple(rows), (note,))


def _costs(walks: Sequence[Walk]) -> Report:
    costs: dict[str, list[float]] = defaultdict(list)
    for walk in walks:
        costs[walk.place] += walk.costs
    rows = tuple(
        (place, f"{len(found):,}", *(f"{value * 1e6:.0f}" for value in _spread(found)))
        for place, found in sorted(costs.items())
    )
    note = "CPU time; a look comes every 64 tokens, so a token bears a 64th of it"
    return Report("what a look costs, us", ("place", "looks", "mean", "99th", "most"), rows, (note,))


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    return sum(values) / len(values), percentile(values, 0.99), max(values)


def _by_kind(walks: Iterable[Walk]) -> dict[str, list[Walk]]:
    found: dict[str, list[Walk]] = defaultdict(list)
    for walk in walks:
        found[walk.kind].append(walk)
    return found


def _in_time(walk: Walk) -> bool:
    return walk.reason is not None and walk.late <= walk.within


def _vocabulary(model: Path | None) -> tuple[Vocabulary, str]:
    """The model's, by default the embedded one's; the fake's where that is not on this machine."""
    try:
        path = model or embedded.find(Settings().state_dir)
    except CheckpointError:
        return FakeVocabulary(), "the fake's word-like pieces"
    return open_checkpoint(path).text, path.name
