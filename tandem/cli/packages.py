"""`tandem packages migrate DIR`: the texts that ship now for the packages that a conductor's directory has stored."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

__all__ = ["command"]

PACKAGES = "packages"


@click.group(short_help="Look after the packages document.")
def command() -> None:
    """Look after the packages document of a conductor's directory, the one of --conductor-config."""


@command.command(short_help="Take over the texts that ship now.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--apply", is_flag=True, help="Store the new version; without it the edits are only printed.")
@click.option("--note", default="texts as shipped", show_default=True, help="Note of the new version.")
def migrate(folder: Path, apply: bool, note: str) -> None:
    """Print how the stored text of each shipped package differs from the one that ships now (CFG-013).

    Packages of one's own, and everything of a package but its text, stay as they are. A server that runs takes the new
    version up within a second.

    \b
    Example:
      tandem packages migrate ~/.tandem/conductor --apply
    """
    from tandem.actors.document_library import load
    from tandem.actors.document_saving import save
    from tandem.conductor.documents import DocumentError, shipped_documents
    from tandem.store.document_files import DocumentFiles

    files = DocumentFiles(folder)
    library = load(files)
    if not library.numbers.get(PACKAGES):
        raise click.ClickException(f"{folder} has no packages document")
    stored = library.in_use[PACKAGES].version.body
    body = _with_texts(stored, shipped_documents()[PACKAGES])
    if body == stored:
        click.echo("every text is the one that ships")
        return
    for line in _edits(stored, body):
        click.echo(line)
    if not apply:
        click.echo("nothing was written; --apply stores it")
        return
    created = datetime.now().astimezone().isoformat(timespec="seconds")
    try:
        _, version = save(files, library, PACKAGES, body, note, created)
    except (DocumentError, OSError) as error:
        raise click.ClickException(f"nothing was stored: {error}") from None
    click.echo(f"stored as version {version.version}")


def _with_texts(stored: Mapping[str, Any], shipped: Mapping[str, Any]) -> dict[str, Any]:
    texts = {package["name"]: package["text"] for package in shipped["packages"] if "text" in package}
    packages = [
        {**package, "text": texts[package["name"]]} if "text" in package and package["name"] in texts else package
        for package in stored["packages"]
    ]
    return {**stored, "packages": packages}


def _edits(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for old, new in zip(before["packages"], after["packages"], strict=True):
        if old != new:
            name = old["name"]
            lines = (old["text"].splitlines(), new["text"].splitlines())
            yield from difflib.unified_diff(*lines, f"{name} stored", f"{name} shipped", lineterm="")
