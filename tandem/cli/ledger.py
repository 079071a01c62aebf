"""`tandem ledger check FILE`: try this Tandem's migrations on a copy of a ledger, and say what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tandem.store.checked import Checked

__all__ = ["command"]


@click.group(short_help="Look at a usage ledger.")
def command() -> None:
    """Look at a usage ledger, the file of --usage-ledger."""


@command.command(short_help="Try a ledger's migration on a copy.")
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Migrate a copy of FILE; print its schema version, the rows of its tables before and after, and its integrity.

    FILE is left alone, and may be in use. Exit status 1 where it cannot be used by this Tandem or is damaged.

    \b
    Example:
      tandem ledger check ~/.tandem/usage/ledger.sqlite3
    """
    # It takes numpy, which no other command but `serve` waits for.
    from tandem.store.checked import check_ledger
    from tandem.store.ledger import StoreError

    try:
        checked = check_ledger(file, datetime.now().astimezone())
    except StoreError as error:
        raise click.ClickException(" ".join(str(error).split())) from None
    for line in _report(file, checked):
        click.echo(line)
    if checked.damage:
        raise click.ClickException(f"{file} is damaged: {len(checked.damage)} findings")


def _report(file: Path, checked: Checked) -> Iterator[str]:
    before, after = checked.before, checked.after
    width = max(len("schema version"), *map(len, after.rows))
    yield str(file)
    yield f"  {'':{width}}  {'before':>12}  {'after':>12}"
    yield f"  {'schema version':{width}}  {before.version:>12}  {after.version:>12}"
    for table, rows in after.rows.items():
        yield f"  {table:{width}}  {before.rows.get(table, '-'):>12}  {rows:>12}"
    yield f"  {'integrity':{width}}  {'damaged' if checked.damage else 'ok':>12}"
    yield from (f"    {finding}" for finding in checked.damage)
