"""`python -m bench claims`: E2 on scripted sessions that end with a claim, with evidence, without, against it, or none.

python -m bench claims                          a perfect reader answers: ends with 1 at a single false note
python -m bench claims --model PATH|embedded    that model answers, in place behind each final message
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from bench.monitor.claim_sessions import scripted_sessions
from bench.monitor.claims import Checked, faults, report, run
from tandem.bench.progress import bar
from tandem.bench.report import RESULTS, keep, machine, render
from tandem.config import Settings
from tandem.engine.checkpoints import embedded
from tandem.engine.load import load_engine
from tandem.engine.memory import default_threads

__all__ = ["command"]


@click.command()
@click.option("--model", help="Checkpoint, or `embedded`, that answers.  [default: a perfect reader]")
@click.option("--threads", type=click.IntRange(1, 1024), help="Threads of the engine.")
@click.option("--write", "keeps", is_flag=True, help="Keep the table under bench/results/.")
def command(model: str | None, threads: int | None, keeps: bool) -> None:
    """Whether the claim check asks where it should, and how many of its notes are false."""
    here, console = machine(), Console()
    if model is None:
        engine, reader = None, "a perfect reader"
    else:
        path = embedded.find(Settings().state_dir) if model == "embedded" else Path(model)
        engine = load_engine(path, threads=threads or default_threads())
        reader = engine.card.name
    with bar("scripted sessions", len(scripted_sessions())) as step:
        found = run(engine, step=step)
    table = replace(report(found, reader), notes=(_reasons(found),))
    render(table, console)
    if keeps:
        console.print(f"kept in {keep('claims', [table], here.lines(threads), RESULTS, here.started.date())}")
    if engine is None and faults(found):
        raise click.ClickException(f"{faults(found)} sessions are judged wrongly")


def _reasons(found: list[Checked]) -> str:
    counted = Counter(one.action.reason for one in found if one.action is not None)
    return "rows: " + ", ".join(f"{count} {reason}" for reason, count in counted.most_common())
