"""`python -m bench resume`: the first token of a conversation's next turn, by where its rows were (issue 7).

A conversation of so many tokens has got an answer of 16; the next turn adds 30. Between the two nothing happens, or a
guest comes (a title of 300 tokens), or another conversation, or the process ends and starts again. A time is that of
`open`, in which rows are moved or read (`caches ms`), the prefill and the first token; a step is one token of the
answer before. Files are in the page cache, as they are after a restart of the service alone. Loading the weights is
not counted. It is one engine without HTTP, and takes half a minute a length.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click
import torch
from rich.console import Console

from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.config import Settings
from tandem.engine.caches.disk_index import DiskSettings
from tandem.engine.caches.disk_writes import write
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.checkpoints import embedded
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.load import load_engine
from tandem.engine.memory import GIB, default_threads
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import SamplingRules

__all__ = ["command"]

LENGTHS, ANSWER, NEW, TITLE = (1000, 4000, 7900), 16, 30, 300
GREEDY = SamplingRules()
DISK = DiskSettings(mode="on", admit_after=1, min_free=0)


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: where it resumed, what that took, the time to its first token, and one step of its answer."""

    ids: list[int]
    source: str
    resumed: int
    open_ms: float
    first_ms: float
    step_ms: float


def ask(engine: TorchEngine, ids: Sequence[int], count: int = ANSWER) -> Turn:
    started = time.perf_counter()
    seq = engine.open(Prompt.of_client(ids))
    opened = time.perf_counter()
    while (read := engine.prefill(seq, len(ids))).done < len(ids):
        pass
    written = _step(engine, seq)
    first = time.perf_counter()
    while len(written) < count:
        written += _step(engine, seq)
    ended = time.perf_counter()
    engine.close(seq)
    step = (ended - first) / max(count - 1, 1)
    source, opening = read.source or "nothing", 1e3 * (opened - started)
    return Turn([*ids, *written], source, read.resumed, opening, 1e3 * (first - started), 1e3 * step)


def _step(engine: TorchEngine, seq: object) -> list[int]:
    [rows] = engine.verify([(seq, engine.draft(seq, 1))])  # type: ignore[list-item, arg-type]
    return list(engine.accept(seq, rows, GREEDY).ids)  # type: ignore[arg-type]


def ids_of(count: int, seed: int) -> list[int]:
    return torch.randint(100, 40_000, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


@contextmanager
def engine_of(loaded: TorchEngine, caches: CacheSettings) -> Iterator[TorchEngine]:
    """A new engine over a model that is loaded: what a restart is for the caches."""
    engine = TorchEngine(loaded._model, loaded.text, loaded.card, caches=caches, fingerprint="0" * 32)
    engine.read_spill()
    try:
        yield engine
    finally:
        engine.leave()


def measure(loaded: TorchEngine, length: int, folder: Path) -> Report:
    """The rows of one length."""
    memory = CacheSettings(store=0, stash=GIB, park=GIB)
    disk = replace(memory, disk=DISK, disk_folder=folder / "disk")
    rows: list[tuple[str, Turn]] = []
    with engine_of(loaded, disk) as engine:
        rows.append(("nothing was there", ask(engine, ids_of(length, 1))))
        talk = rows[-1][1].ids
        again = _then(rows, "in memory", engine, talk, 2)
        ask(engine, ids_of(TITLE, 3))
        again = _then(rows, "after a guest", engine, again, 4)
        while (job := engine.upkeep(time.time())) is not None:
            engine.kept(job, write(job), time.time())
    with engine_of(loaded, disk) as engine:
        _then(rows, "after a restart, disk tier", engine, again, 5)
    spilling = replace(memory, guest_max=0, spill_folder=folder / "spill")
    with engine_of(loaded, spilling) as engine:
        talk = ask(engine, ids_of(length, 1)).ids
        ask(engine, ids_of(length, 6))
        talk = _then(rows, "after another conversation", engine, talk, 7)
        started = time.perf_counter()
        engine.spill()
        spilled = 1e3 * (time.perf_counter() - started)
    with engine_of(loaded, spilling) as engine:
        _then(rows, "after a restart, spill", engine, talk, 8)
    step = rows[0][1].step_ms
    table = tuple(
        (
            what,
            each.source,
            f"{each.resumed:,} of {len(each.ids) - ANSWER:,}",
            f"{each.open_ms:,.1f}",
            f"{each.first_ms:,.0f}",
            f"{each.first_ms / step:.1f}",
        )
        for what, each in rows
    )
    notes = (f"a step took {step:.1f} ms; the spill of both conversations took {spilled:,.0f} ms",)
    columns = ("before the turn", "answered by", "resumed at", "caches ms", "first token ms", "steps")
    return Report(f"Next turn at {length:,} tokens", columns, table, notes)


def _then(rows: list[tuple[str, Turn]], what: str, engine: TorchEngine, talk: Sequence[int], seed: int) -> list[int]:
    """The next turn of `talk`."""
    answered = ask(engine, [*talk, *ids_of(NEW, seed)])
    rows.append((what, answered))
    return answered.ids


@click.command()
@click.option("--length", type=click.IntRange(100, 7_900), multiple=True, help="Tokens of the conversation.")
@click.option("--threads", type=click.IntRange(1, 1024), help="Threads of the engine.")
@click.option("--model", type=click.Path(path_type=Path), help="Checkpoint.  [default: the embedded model]")
@click.option("--write", "keeps", is_flag=True, help="Keep the tables under bench/results/.")
def command(length: tuple[int, ...], threads: int | None, model: Path | None, keeps: bool) -> None:
    """The first token of the next turn: from memory, after a guest, after a restart."""
    here, console = machine(), Console()
    model = model or embedded.find(Settings().state_dir)
    threads = threads or default_threads()
    loaded = load_engine(model, threads=threads)
    reports = []
    for count in length or LENGTHS:
        with tempfile.TemporaryDirectory() as folder:
            reports.append(measure(loaded, count, Path(folder)))
        render(reports[-1], console)
    lines = (f"model {model.name}, torch {torch.__version__}", *here.lines(threads))
    for line in lines:
        console.print(line, markup=False, highlight=False)
    if keeps:
        kept = keep("resume", reports, lines, RESULTS, here.started.date())
        console.print(f"kept in {kept}", markup=False, highlight=False)
