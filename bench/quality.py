"""The quality gate of ENG-016: how far each kind of CPU weights is from fp32 on a text no model has learnt.

    python -m bench.quality [--model PATH] [--tokens N] [--write]

The text is this repository's own specification, docs/spec/. For every token the whole distribution over the next one is
compared: the mean of KL(fp32 || kind), in nats, must be below 0.01. A row is read in chunks as a prefill reads it, and
once more token by token, as a decode does. The time of a token is that of the model alone.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import torch
from rich.console import Console
from torch import Tensor

from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.config import Settings
from tandem.engine.checkpoints.embedded import ensure
from tandem.engine.checkpoints.load import Checkpoint, open_checkpoint
from tandem.engine.memory import default_threads
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights
from tandem.engine.models.model import Model
from tandem.engine.models.registry import package_of

__all__ = ["GATE", "Quality", "compare", "main"]

GATE = 0.01
"""Nats of mean KL under which a kind may be the default."""
CHUNK = 512
STEPS = 128
"""Tokens of each text chunk that are read one at a time."""
SPEC = Path(__file__).parent.parent / "docs" / "spec"


@dataclass(frozen=True, slots=True)
class Quality:
    """What one kind costs and takes: KL in nats over all rows, `agreement` the share of equal best tokens."""

    mean_kl: float
    p99_kl: float
    agreement: float
    step_kl: float
    nbytes: int
    token_s: float


def compare(reference: Model, model: Model, chunks: Sequence[Tensor]) -> Quality:
    """`model` against `reference` on chunks of ids, each read from row 0."""
    divergences, agreed, steps, times = [], [], [], list[float]()
    with torch.inference_mode():
        for ids in chunks:
            expected = _chances(reference, ids)
            ours = _chances(model, ids)
            divergences.append(_kl(expected, ours))
            agreed.append((expected.argmax(-1) == ours.argmax(-1)).float())
            stepped = _stepped(model, ids[:STEPS], times)
            steps.append(_kl(expected[:STEPS], stepped))
    kl = torch.cat(divergences)
    return Quality(
        mean_kl=float(kl.mean()),
        p99_kl=float(kl.quantile(0.99)),
        agreement=float(torch.cat(agreed).mean()),
        step_kl=float(torch.cat(steps).mean()),
        nbytes=sum(model.nbytes.values()),
        token_s=statistics.median(times),
    )


def _chances(model: Model, ids: Tensor) -> Tensor:
    return torch.log_softmax(model.logits(model.forward(ids, 0, model.new_state(len(ids)))), dim=-1)


def _stepped(model: Model, ids: Tensor, times: list[float]) -> Tensor:
    cache, rows = model.new_state(len(ids)), []
    for at, one in enumerate(torch.split(ids, 1)):
        start = time.perf_counter()
        rows.append(model.logits(model.forward(one, at, cache)))
        times.append(time.perf_counter() - start)
    return torch.log_softmax(torch.cat(rows), dim=-1)


def _kl(expected: Tensor, ours: Tensor) -> Tensor:
    return (expected.exp() * (expected - ours)).sum(dim=-1)


def _load(checkpoint: Checkpoint, kind: CpuWeights) -> Model:
    load = package_of(checkpoint.config.architecture)
    return load(checkpoint.config, checkpoint.weights, lambda done, total: None, kind)


def _chunks(checkpoint: Checkpoint, tokens: int) -> list[Tensor]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(SPEC.glob("[a-z]*.md")))
    ids = checkpoint.text.encode(text)
    count = max(1, tokens // CHUNK)
    stride = (len(ids) - CHUNK) // count
    return [torch.tensor(ids[at * stride :][:CHUNK]) for at in range(count)]


def _report(name: str, found: dict[CpuWeights, Quality], tokens: int) -> Report:
    rows = tuple(
        (
            kind,
            f"{each.mean_kl:.5f}",
            f"{each.p99_kl:.4f}",
            f"{each.step_kl:.5f}",
            f"{each.agreement:.1%}",
            f"{each.nbytes / 2**20:.0f} MiB",
            f"{each.token_s * 1e3:.1f} ms",
            "yes" if each.mean_kl < GATE else "no",
        )
        for kind, each in found.items()
    )
    columns = ("weights", "mean KL", "p99 KL", "stepped", "same best", "bytes", "a token", f"< {GATE}")
    title = f"{name}: KL(fp32 || kind) in nats over {tokens} tokens of docs/spec/"
    note = f"stepped: the mean where the first {STEPS} of every {CHUNK} tokens are read one at a time"
    return Report(title, columns, rows, (note,))


@click.command()
@click.option("--model", type=click.Path(path_type=Path), help="Checkpoint; the embedded model where none is named.")
@click.option("--tokens", default=4096, show_default=True, help="Tokens to compare.")
@click.option("--threads", type=int, help="Threads to compute with.")
@click.option("--write", is_flag=True, help="Keep the table under bench/results/.")
def main(model: Path | None, tokens: int, threads: int | None, write: bool) -> None:
    """Print how far every kind of CPU weights is from fp32."""
    here = machine()
    threads = threads or default_threads()
    torch.set_num_threads(threads)
    path = model or ensure(Settings.from_sources({}, os.environ).state_dir, lambda done, total: None)
    checkpoint = open_checkpoint(path)
    chunks = _chunks(checkpoint, tokens)
    reference, found = _load(checkpoint, "fp32"), dict[CpuWeights, Quality]()
    for kind in CPU_WEIGHTS:
        found[kind] = compare(reference, reference if kind == "fp32" else _load(checkpoint, kind), chunks)
    report = _report(path.name, found, sum(len(ids) for ids in chunks))
    lines = (f"torch {torch.__version__}", *here.lines(threads))
    console = Console(width=110)
    render(report, console)
    for line in lines:
        console.print(line, markup=False, highlight=False)
    if write:
        kept = keep("quality", (report,), lines, RESULTS, here.started.date())
        console.print(f"kept in {kept}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
