"""`tandem watch`: the live view of a running server in the terminal."""

from __future__ import annotations

import os
import sys

import click
from rich.console import Console

from tandem.cli.client import ChatError
from tandem.config import SettingError, Settings
from tandem.secrets import read_secrets

__all__ = ["command"]


@click.command(short_help="Watch what a running server does.")
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="Address of the server.")
@click.option("--once", is_flag=True, help="Print the state as it is now, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print the events as lines of JSON.")
def command(url: str, once: bool, as_json: bool) -> None:
    """Show what a running server does, as it does it.

    Ctrl-C ends. A server that asks for its password gets the one in TANDEM_ADMIN_TOKEN or STATE's secrets.env. Into a
    pipe it prints the state once, with --json the events as they come:

        tandem watch --json | jq .data.engine.label
    """
    try:
        state_dir = Settings.from_sources({}, os.environ).state_dir
        token = read_secrets(os.environ, state_dir).admin_token
        _run(url, token, once=once, as_json=as_json)
    except KeyboardInterrupt:
        return
    except (ChatError, SettingError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise click.ClickException(str(error)) from None


def _run(url: str, token: str | None, *, once: bool, as_json: bool) -> None:
    # trio is loaded only when something is watched: `tandem --help` names this command too.
    from tandem.cli.live_client import Address
    from tandem.cli.watching import print_once, watch_events, watch_screen

    address = Address.parse(url, token)
    if once or not (as_json or sys.stdout.isatty()):
        print_once(address, click.echo, as_json=as_json)
    elif as_json:
        watch_events(address, click.echo, lambda text: click.echo(text, err=True))
    else:
        watch_screen(address, Console(highlight=False))
