"""`tandem pull NAME`: fetch a model into STATE/models, with a progress bar; prints where it is."""

from __future__ import annotations

import os
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from tandem.config import SettingError, Settings

__all__ = ["command"]

EMBEDDED = "smollm2-135m"
KNOWN = (EMBEDDED,)


@click.command(short_help="Fetch a model.")
@click.argument("name")
@click.option("--state-dir", metavar="PATH", help="STATE, below which models are kept.  [default: ~/.tandem]")
def command(name: str, state_dir: str | None) -> None:
    """Fetch the model NAME into STATE/models, checked against its checksum, and print where it is.

    Known names: smollm2-135m (SmolLM2-135M-Instruct, 98 MB, Apache-2.0), which `tandem serve` uses without --model.
    """
    if name not in KNOWN:
        raise click.ClickException(
            f"{name!r} is not a model that can be fetched; known: {', '.join(KNOWN)}. "
            "A local checkpoint needs no pull: tandem serve --model PATH."
        )
    try:
        settings = Settings.from_sources({"state_dir": state_dir}, os.environ)
    except SettingError as error:
        raise click.ClickException(str(error)) from None
    click.echo(_fetch(name, settings.state_dir))


def _fetch(name: str, state_dir: Path) -> Path:
    from tandem.engine.checkpoints.embedded import fetch
    from tandem.engine.errors import CheckpointError

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None)
        try:
            return fetch(state_dir, lambda done, total: bar.update(task, completed=done, total=total or None))
        except CheckpointError as error:
            raise click.ClickException(" ".join(str(error).split())) from None
