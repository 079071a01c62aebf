"""`tandem monitor migrate`: the shipped tasks that a server's stored monitor document lacks (MON-024)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

__all__ = ["command", "with_tasks"]

DOCUMENT = "/conductor/monitor"


@click.group(short_help="Look after a server's monitor document.")
def command() -> None:
    """Look after the monitor document of a running server."""


@command.command(short_help="Add the tasks that ship and are missing.")
@click.option("--put", "url", required=True, metavar="URL", help="The server, such as http://127.0.0.1:8000.")
@click.option("--tasks", metavar="ID,…", default="", help="Only these; without it all that are missing.")
@click.option("--note", default="shipped tasks added", show_default=True, help="Note of the new version.")
@click.option("--token", envvar="TANDEM_ADMIN_TOKEN", help="The server's password; also TANDEM_ADMIN_TOKEN.")
def migrate(url: str, tasks: str, note: str, token: str | None) -> None:
    """Store a new version of the monitor document with the entries it lacks; everything else stays as it is.

    A stored document does not run a task that it does not have, so a new release's tasks reach it only this way.

    \b
    Example:
      tandem monitor migrate --put http://127.0.0.1:8000 --tasks D3,S5
    """
    from tandem.cli.client import ChatClient, ChatError
    from tandem.conductor.monitor.policy import shipped_body

    shipped = shipped_body()["tasks"]
    wanted = [name for each in tasks.split(",") if (name := each.strip())] or [task["id"] for task in shipped]
    if unknown := [name for name in wanted if all(task["id"] != name for task in shipped)]:
        raise click.ClickException(f"no task {unknown[0]} ships; there are {', '.join(task['id'] for task in shipped)}")
    try:
        client = ChatClient(url, token)
        found = client.json("GET", DOCUMENT)
        stored = found.get("document")
        if not found.get("version") or not isinstance(stored, dict):
            click.echo("nothing is stored: the server runs its policy file, and all that stands in it")
            return
        changed, added = with_tasks(stored, shipped, wanted)
        if not added:
            click.echo("the document has them all")
            return
        body = {"document": changed, "note": note, "base_version": found["version"]}
        saved = client.json("PUT", DOCUMENT, body)
    except ChatError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"added {', '.join(added)}; stored as version {saved.get('version')}")


def with_tasks(
    stored: Mapping[str, Any], shipped: Sequence[Mapping[str, Any]], wanted: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """`stored` with the `wanted` entries that it lacks, each behind the shipped one before it, and their ids."""
    tasks: list[Mapping[str, Any]] = list(stored.get("tasks", ()))
    added: list[str] = []
    before: list[str] = []
    for entry in shipped:
        ids = [task.get("id") for task in tasks]
        if entry["id"] in wanted and entry["id"] not in ids:
            at = next((ids.index(each) + 1 for each in reversed(before) if each in ids), 0)
            tasks.insert(at, entry)
            added.append(entry["id"])
        before.append(entry["id"])
    return {**stored, "tasks": tasks}, added
