"""`python -m bench sessions`: our own sessions replayed with the conductor on, in shadow and raw (issue 9).

In this process the embedded model reads the prompts and the class question is answered as the fixture says, so that
notes and packages are there in full. With `--url` a running server has all of it, its own answers to the question
included; each mode then begins with words of its own, so that it meets no rows of another.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from bench.conductor.fixtures import fixtures
from bench.conductor.remote import replayed_by
from bench.conductor.replay import MODES, Mode, Turn, agree, alone, efforts, replayed, report
from bench.resume import engine_of
from tandem.bench.report import RESULTS, keep, machine, render
from tandem.bench.subject import BenchError
from tandem.config import Settings
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.checkpoints import embedded
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.load import load_engine
from tandem.engine.memory import GIB, default_threads

__all__ = ["command"]

GRID = 1024
"""Of a server, which does not tell its own."""


@click.command()
@click.option("--url", help="A server that is running with --conductor-config.")
@click.option("--key", envvar="TANDEM_BENCH_KEY", help="Its key.")
@click.option("--model", type=click.Path(path_type=Path), help="Checkpoint.  [default: the embedded model]")
@click.option("--threads", type=click.IntRange(1, 1024), help="Threads of the engine.")
@click.option(
    "--x-tandem", "only", type=click.Choice(MODES), help="With --url: this mode alone; raw: the engine's own."
)
@click.option("--session", "names", type=click.Choice(sorted(fixtures())), multiple=True, help="Only these.")
@click.option("--write", "keeps", is_flag=True, help="Keep the tables under bench/results/.")
def command(
    url: str | None,
    key: str | None,
    model: Path | None,
    threads: int | None,
    only: Mode | None,
    names: tuple[str, ...],
    keeps: bool,
) -> None:
    """The cached share of each turn with the conductor on, in shadow and raw. Ends with 1 where they do not agree."""
    here, console = machine(), Console()
    chosen = {name: one for name, one in fixtures().items() if not names or name in names}
    if only is not None and url is None:
        raise click.UsageError("--x-tandem is sent to a server: name it by --url")
    tables, apart, grid, ran = [], 0, GRID, list[Turn]()
    engine: TorchEngine | None = None
    if url is None:
        path, threads = model or embedded.find(Settings().state_dir), threads or default_threads()
        engine = load_engine(path, threads=threads)
        grid = engine.card.anchor_grid
    for name, fixture in chosen.items():
        try:
            if only is not None:
                turns = replayed_by(url or "", key, fixture, only)
                tables.append(alone(name, only, turns))
                render(tables[-1], console)
                continue
            if engine is None:
                modes = {mode: replayed_by(url or "", key, fixture, mode) for mode in MODES}
            else:
                modes = {}
                for mode in MODES:
                    with tempfile.TemporaryDirectory() as folder:
                        opened = partial(engine_of, engine, _caches(Path(folder)))
                        modes[mode] = replayed(fixture, mode, engine.text, opened, engine.card.max_len)
        except BenchError as error:
            raise click.ClickException(str(error)) from None
        apart += len(agree(modes, grid))
        ran += modes["on"]
        tables.append(report(name, fixture, modes, grid))
        render(tables[-1], console)
    served = f"server {url}" if engine is None else f"model {engine.card.name}, grid {grid}"
    suite = (
        (f"turns at each level of effort, all sessions: {efforts(ran)}",) if any(each.effort for each in ran) else ()
    )
    lines = (*suite, served, *here.lines(None if engine is None else threads))
    for line in lines:
        console.print(line, markup=False, highlight=False)
    if keeps:
        console.print(f"kept in {keep('sessions', tables, lines, RESULTS, here.started.date())}", markup=False)
    if apart:
        raise click.ClickException(f"the three modes do not agree in {apart} turns")


def _caches(folder: Path) -> CacheSettings:
    """All in memory, and the spill that a restart goes on with."""
    return CacheSettings(store=GIB, stash=GIB, park=GIB, spill_folder=folder / "spill")
