"""`python -m bench conductor`: how often the class question is answered right, how often surely and wrong, its cost.

    python -m bench conductor --conductor-fit questions=true            the embedded model, in this process
    python -m bench conductor --url http://127.0.0.1:8000 [--key KEY]   whatever that server serves, by its test box

The prompts are ours (`prompts.jsonl`); what is asked, and what becomes of an answer, is the planner's own code. The
package question is left out. In this process a follow-up's session has its previous class; a test box has no sessions,
so there a follow-up is asked as a first message, and what is found by its shape alone is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from bench.conductor.asking import InProcess, Judge, Server
from bench.conductor.desk import documents_in_use
from bench.conductor.labelled import Labelled, labelled_prompts
from bench.conductor.planning import planning_report
from bench.conductor.tally import Judged, reports
from tandem.bench.progress import bar
from tandem.bench.report import RESULTS, keep, machine, render
from tandem.bench.subject import BenchError
from tandem.conductor.router.modelfit import fit_of
from tandem.config import Settings
from tandem.engine.checkpoints import embedded
from tandem.engine.load import load_engine
from tandem.engine.memory import default_threads

__all__ = ["command", "judge_all"]


def judge_all(judge: Judge, prompts: Sequence[Labelled]) -> list[Judged]:
    found = []
    with bar("labelled prompts", len(prompts)) as step:
        for prompt in prompts:
            found.append(judge(prompt))
            step()
    return [one for one in found if one is not None]


@click.command()
@click.option("--url", help="A server that is running with --conductor-config, and whose test box answers.")
@click.option("--key", envvar="TANDEM_BENCH_KEY", help="Its key, of an administrator.")
@click.option("--model", type=click.Path(path_type=Path), help="Checkpoint.  [default: the embedded model]")
@click.option("--conductor-fit", "fit", default="model", show_default=True, help="As the server's setting.")
@click.option(
    "--router", type=click.Path(exists=True, path_type=Path), help="A router document in place of the shipped."
)
@click.option("--threads", type=click.IntRange(1, 1024), help="Threads of the engine.")
@click.option("--every", type=click.IntRange(1), default=1, help="Only each so-manieth prompt.")
@click.option("--write", "keeps", is_flag=True, help="Keep the tables under bench/results/.")
def command(
    url: str | None,
    key: str | None,
    model: Path | None,
    fit: str,
    router: Path | None,
    threads: int | None,
    every: int,
    keeps: bool,
) -> None:
    """Accuracy and cost of the class question on labelled prompts, and the cost of planning."""
    here, console = machine(), Console()
    documents = documents_in_use(router)
    prompts = labelled_prompts()[::every]
    try:
        if url is not None:
            tables = reports(judge_all(Server(url, key).judge, prompts), documents.router)
            lines: tuple[str, ...] = (f"server {url}; thresholds of the document here", *here.lines())
        else:
            path, threads = model or embedded.find(Settings().state_dir), threads or default_threads()
            engine = load_engine(path, threads=threads)
            fitted = fit_of(engine.card.conductor, fit)
            found = judge_all(InProcess(engine, engine.text, fitted, documents).judge, prompts)
            tables = [*reports(found, documents.router), planning_report(engine.text)]
            lines = (f"model {path.name}, conductor fit {fitted}", *here.lines(threads))
    except (BenchError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    for table in tables:
        render(table, console)
    for line in lines:
        console.print(line, markup=False, highlight=False)
    if keeps:
        console.print(f"kept in {keep('conductor', tables, lines, RESULTS, here.started.date())}", markup=False)
