"""`tandem bench`: how fast this machine is with this engine, and where the time goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tandem.config import SettingError, Settings, declared
from tandem.kinds import Choice

if TYPE_CHECKING:
    from tandem.bench.suite import Plan, Suite

__all__ = ["command"]

ENGINES = {
    "decode": "Tokens a second while writing.",
    "prefill": "Tokens a second while reading prompts of 128 to 2,000 tokens.",
    "warm": "Time to the first token of the second turn of a 2,000-token conversation.",
}
Command = Callable[..., None]


_WEIGHTS = declared()["cpu_weights"].kind
assert isinstance(_WEIGHTS, Choice)
_write = click.option("--write", is_flag=True, help="Keep the tables under bench/results/.")
_rounds = click.option("--rounds", type=click.IntRange(1, 100), help="Rounds, of which the median is shown.")
_model = click.option("--model", metavar="PATH", help="Checkpoint to measure.  [default: the embedded model]")
_threads = click.option("--threads", type=click.IntRange(1, 1024), help="Threads of every engine.")
_weights = click.option(
    "--cpu-weights",
    type=click.Choice(_WEIGHTS.words),
    multiple=True,
    help="How Tandem keeps its weights; given more than once, each is measured.",
)


def _engine_options(function: Command) -> Command:
    return _model(_threads(_weights(_write(function))))


@click.group(short_help="Measure the engine and the service.")
def command() -> None:
    """Measure the engine and the service on this machine; it should do nothing else meanwhile.

    In a checkout `make bench` runs all of it with llama.cpp and transformers beside Tandem.
    """


@command.command(short_help="The service's own cost, on the fake engine.")
@_write
def server(write: bool) -> None:
    """Time to the first byte and CPU a token of `tandem serve --fake`, with 1 and 16 streams."""
    with _suite(write) as suite:
        suite.server()


@command.command(short_help="Where one token's time goes.")
@_engine_options
def profile(write: bool, **options: Any) -> None:
    """Where one token's time goes, and the floor: the bytes it reads over the bandwidth measured here."""
    with _suite(write) as suite:
        suite.profile(_plan(options))


@command.command(short_help="What speculation gains, by the kind of text.")
@_engine_options
@_rounds
@click.pass_obj
def speculate(peers: Any, /, write: bool, **options: Any) -> None:
    """Tokens a round and a second on fresh prose, an edited file, a quoted passage and a table that becomes JSON."""
    with _suite(write) as suite:
        suite.speculate(_plan(options, peers=peers or {}, rounds=options["rounds"]))


@command.command(short_help="That no feature changes a text.")
@_model
@_threads
@_weights
@_write
@click.option("--quick", is_flag=True, help="A few requests and features, in under a minute.")
@click.option("--tie-nats", type=click.FloatRange(0), help="The widest gap of a near tie.  [default: 0.125]")
@click.pass_context
def exact(ctx: click.Context, /, write: bool, quick: bool, tie_nats: float | None, **options: Any) -> None:
    """Whether drafters, caches, questions and loans leave texts as they are: 14 requests, greedy and seeded.

    Every fork is listed. Ends with 1 where one of them is no near tie. docs/exactness.md says what is promised.
    """
    with _suite(write) as suite:
        if not suite.exact(_plan(options), quick=quick, tie_nats=tie_nats):
            ctx.exit(1)


@command.command(short_help="How good the estimates of waits are, by a ledger.")
@click.argument("ledger", type=click.Path(path_type=Path))
def waits(ledger: Path) -> None:
    """What waiters would have been told, over what they would have waited, had they come during LEDGER's requests.

    Nothing is measured: LEDGER, the file of --usage-ledger, is read and left alone, and may be in use.
    """
    from rich.console import Console

    from tandem.bench.report import render
    from tandem.bench.waits import holds, read, replay, report
    from tandem.store.ledger import StoreError

    try:
        runs = holds(read(ledger))
    except StoreError as error:
        raise click.ClickException(" ".join(str(error).split())) from None
    render(report(replay(runs)), Console())


@command.command("all", short_help="All of these.")
@_engine_options
@_rounds
@click.pass_obj
def everything(peers: Any, /, write: bool, **options: Any) -> None:
    """All measurements, one after another."""
    with _suite(write) as suite:
        _engines(suite, tuple(ENGINES), peers, options)
        suite.profile(_plan(options))
        suite.server()


def _add(name: str, what: str) -> None:
    """A subcommand for one measurement of engines."""

    @command.command(name, short_help=what, help=what)
    @_engine_options
    @_rounds
    @click.pass_obj
    def run(peers: Any, /, write: bool, **options: Any) -> None:
        with _suite(write) as suite:
            _engines(suite, (name,), peers, options)


for each in ENGINES.items():
    _add(*each)


def _engines(suite: Suite, names: tuple[str, ...], peers: Any, options: dict[str, Any]) -> None:
    if not peers:
        click.echo("Tandem alone; make bench in a checkout has llama.cpp and transformers beside it.", err=True)
    suite.engines(_plan(options, peers=peers or {}, rounds=options["rounds"]), names)


def _plan(options: dict[str, Any], **more: Any) -> Plan:
    """What is not named is what `tandem serve` would take."""
    from tandem.bench.suite import Plan
    from tandem.engine.memory import default_threads

    settings = Settings.from_sources({}, os.environ)
    return Plan(
        model=_found(options["model"] or settings.model, settings.state_dir),
        threads=options["threads"] or settings.threads or default_threads(),
        cpu_weights=options["cpu_weights"] or (settings.cpu_weights,),
        **more,
    )


def _found(model: str | None, state_dir: Path) -> Path:
    from rich.console import Console

    from tandem.engine.checkpoints.embedded import ensure
    from tandem.engine.checkpoints.load import resolve_model

    if model is not None:
        return resolve_model(model, state_dir)
    with Console(stderr=True).status("fetching the embedded model"):
        return ensure(state_dir, lambda done, total: None)


@contextmanager
def _suite(write: bool) -> Iterator[Suite]:
    """The run, whose foreseeable errors are one line."""
    from rich.console import Console

    from tandem.bench.report import machine
    from tandem.bench.subject import BenchError
    from tandem.bench.suite import Suite
    from tandem.engine.errors import CheckpointError

    try:
        yield Suite(machine(), Console(), write=write)
    except (BenchError, CheckpointError, SettingError) as error:
        raise click.ClickException(" ".join(str(error).split())) from None
