"""`tandem corpus`: texts that drafts are looked up in; `build` makes one from files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click

from tandem.config import SettingError, Settings

__all__ = ["command"]


@click.group(short_help="Make a corpus that drafts are looked up in.")
def command() -> None:
    """Make a corpus that drafts are looked up in.

    \b
    Example:
      tandem corpus build --out code.ids src/*.py
    """


@command.command("build", short_help="Make a corpus from text files.")
@click.argument("texts", type=click.Path(exists=True, dir_okay=False), nargs=-1, required=True, metavar="TEXT...")
@click.option("--model", metavar="MODEL", help="Model whose tokenizer reads them.  [default: the embedded one]")
@click.option("--out", required=True, type=click.Path(dir_okay=False), metavar="FILE", help="File to write.")
@click.option("--state-dir", metavar="PATH", help="STATE, below which models are kept.  [default: ~/.tandem]")
def build(texts: tuple[str, ...], model: str | None, out: str, state_dir: str | None) -> None:
    """Make a corpus from the files TEXT, in UTF-8, each of them one document.

    The file holds token ids and where they stand, eight bytes a token, and no text. Only a model with the same
    tokenizer can use it.
    """
    from tandem.engine.errors import CheckpointError

    try:
        state = Settings.from_sources({"state_dir": state_dir}, os.environ).state_dir
        documents, tokens = _build([Path(each) for each in texts], model, Path(out).expanduser(), state)
    except (CheckpointError, SettingError) as error:
        raise click.ClickException(" ".join(str(error).split())) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    click.echo(f"{out}: {tokens} tokens of {documents} document{'s' * (documents != 1)}")


def _build(texts: Iterable[Path], model: str | None, out: Path, state_dir: Path) -> tuple[int, int]:
    from tandem.engine.checkpoints.embedded import NAME
    from tandem.engine.checkpoints.load import open_checkpoint, resolve_model
    from tandem.engine.drafting.corpus import join, write_corpus

    checkpoint = open_checkpoint(resolve_model(model or NAME, state_dir))
    text = checkpoint.text
    checkpoint.weights.close()
    documents = [text.encode(_text(path)) for path in texts]
    write_corpus(out, join(documents), text.sha256)
    return len(documents), sum(map(len, documents))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path}: is no UTF-8 text (byte {error.start})") from None
