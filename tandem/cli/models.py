"""`tandem models`: what can be done with checkpoints; `make-tiny` writes a random tiny one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

__all__ = ["command"]

KINDS = ("llama", "llama-gguf", "qwen3_5", "qwen3_5-fp8", "qwen3_5-nvfp4", "qwen3_5-vision")
"""Those of `tandem.engine.tiny.kinds`, written out so that the help needs no torch."""


@click.group(short_help="Make checkpoints.")
def command() -> None:
    """Make checkpoints.

    \b
    Example:
      tandem models make-tiny qwen3_5 --out /tmp/tiny
      tandem serve --model /tmp/tiny
    """


@command.command("make-tiny", short_help="Write a random tiny checkpoint.")
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.option("--out", required=True, metavar="DIR", help="Directory to write into; it must be empty or not there yet.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same bytes.")
@click.option(
    "--layers", type=click.IntRange(1, 256), metavar="N", help="Layers of the decoder.  [default: the kind's]"
)
@click.option("--hidden", type=click.IntRange(32, 8192), metavar="N", help="Width, a multiple of 32.  [default: 64]")
def make_tiny(kind: str, out: str, seed: int, layers: int | None, hidden: int | None) -> None:
    """Write a random tiny checkpoint of KIND, with tokenizer and chat template.

    It answers nonsense, quickly: for tests of clients, and to try a server where no model fits.

    \b
    KIND is one of:
      llama           a Llama decoder
      llama-gguf      the same as a GGUF file
      qwen3_5         a hybrid decoder of the Qwen3.5 family in BF16
      qwen3_5-fp8     the same with its projections in FP8 blocks
      qwen3_5-nvfp4   the same with its projections in NVFP4
      qwen3_5-vision  the BF16 one with a vision tower
    """
    from tandem.engine.errors import CheckpointError
    from tandem.engine.tiny.kinds import make_tiny

    directory = Path(out).expanduser()
    try:
        with _spinner(f"{kind}: tokenizer, template and weights"):
            path = make_tiny(kind, directory, seed=seed, layers=layers, hidden=hidden)
    except CheckpointError as error:
        raise click.ClickException(str(error)) from None
    size = sum(file.stat().st_size for file in directory.iterdir())
    click.echo(f"{kind}, {_shown(size)}. Serve it: tandem serve --model {shlex.quote(str(path))}")


@contextmanager
def _spinner(what: str) -> Iterator[None]:
    """Shows on a terminal that something is under way; a large width takes seconds."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


def _shown(size: int) -> str:
    from rich.filesize import decimal

    return decimal(size)
