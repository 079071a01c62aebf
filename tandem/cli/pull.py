"""`tandem pull NAME`: fetch a model into STATE/models, with a progress bar; prints where it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tandem.config import SettingError, Settings

if TYPE_CHECKING:
    from tandem.engine.checkpoints.pulled import ModelName

__all__ = ["command"]

EMBEDDED = "smollm2-135m"
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

Progress = Callable[[int, int], None]


class Interrupted(click.ClickException):
    """Ctrl-C during a pull."""

    exit_code = INTERRUPTED


@click.command(short_help="Fetch a model.")
@click.argument("name", required=False)
@click.option("--revision", metavar="REV", help="Branch, tag or commit of the repository.  [default: its main branch]")
@click.option("--list", "listing", is_flag=True, help="List the models that are there: name, format, size.")
@click.option("--state-dir", metavar="PATH", help="STATE, below which models are kept.  [default: ~/.tandem]")
def command(name: str | None, revision: str | None, listing: bool, state_dir: str | None) -> None:
    """Fetch the model NAME into STATE/models and print where it is.

    NAME is ORG/NAME on the Hugging Face hub, ORG/NAME:FILE.gguf for one of several GGUF files, or smollm2-135m, the
    model that `tandem serve` uses without --model (98 MB, Apache-2.0). What is not served is refused before its weights
    are fetched, files are checked against their digests, and a pull that was interrupted continues. For gated and
    private models set HF_TOKEN; HF_ENDPOINT names another hub.

    \b
    Examples:
      tandem pull HuggingFaceTB/SmolLM2-360M-Instruct
      tandem serve --model HuggingFaceTB/SmolLM2-360M-Instruct
    """
    try:
        state = Settings.from_sources({"state_dir": state_dir}, os.environ).state_dir
    except SettingError as error:
        raise click.ClickException(str(error)) from None
    if listing == (name is not None):
        wrong = "--list takes no NAME." if listing else "Missing argument 'NAME', the model to fetch."
        raise click.UsageError(wrong, click.get_current_context())
    if name is None:
        _list(state)
    else:
        click.echo(_pull(name, revision, state))


def _pull(name: str, revision: str | None, state_dir: Path) -> Path:
    from tandem.engine.checkpoints.pulled import ModelName
    from tandem.engine.errors import CheckpointError

    model = ModelName.parse(name)
    if name == EMBEDDED and revision is not None:
        raise click.ClickException(f"--revision: {EMBEDDED} has none, it is one pinned file")
    if name != EMBEDDED and model is None:
        raise click.ClickException(
            f"{name!r} is not a model that can be fetched; known: {EMBEDDED}. A model of the Hugging Face hub is "
            "ORG/NAME or ORG/NAME:FILE.gguf; a local checkpoint needs no pull: tandem serve --model PATH."
        )
    try:
        with _bar(name) as progress:
            return _embedded(state_dir, progress) if model is None else _hub(model, revision, state_dir, progress)
    except CheckpointError as error:
        raise click.ClickException(" ".join(str(error).split())) from None
    except KeyboardInterrupt:
        kept = "" if model is None else "; what came is kept, and the same command continues it"
        raise Interrupted(f"stopped{kept}: tandem pull {name}") from None


def _embedded(state_dir: Path, progress: Progress) -> Path:
    from tandem.engine.checkpoints.embedded import fetch

    return fetch(state_dir, progress)


def _hub(name: ModelName, revision: str | None, state_dir: Path, progress: Progress) -> Path:
    # It takes torch and huggingface_hub, which no other command but `serve` waits for.
    from tandem.engine.checkpoints.hub import pull

    return pull(name, state_dir, progress, revision=revision)


@contextmanager
def _bar(name: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def _list(state_dir: Path) -> None:
    from rich.filesize import decimal

    from tandem.engine.checkpoints.pulled import list_pulled

    models = list_pulled(state_dir)
    if not models:
        click.echo(f"No model is pulled into {state_dir / 'models'}.", err=True)
    width = max((len(model.name) for model in models), default=0)
    for model in models:
        click.echo(f"{model.name:{width}}  {model.format:11}  {decimal(model.nbytes):>9}")
