"""The command group: finds a subcommand's module when it is needed, and makes every usage error one line."""

from __future__ import annotations

import importlib
from typing import Any

import click

from tandem import __version__

__all__ = ["main"]

COMMANDS = ("serve", "chat", "watch", "pull", "models", "corpus", "bench", "ledger", "packages", "policy", "monitor")
"""One module of `tandem.cli` each, in the order of the help; its `command` is the click command."""


class WrongUsage(click.ClickException):
    """A command line that cannot be read."""

    exit_code = 2


class Commands(click.Group):
    """Imports a subcommand on demand, so that `tandem --version` and `tandem chat` load no torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"tandem.cli.{cmd_name}").command
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise _one_line(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _one_line(error) from None


def _one_line(error: click.UsageError) -> click.ClickException:
    """Click's own form is four lines; this is its message and where to read on."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error
    path = error.ctx.command_path if error.ctx else "tandem"
    return WrongUsage(f"{error.format_message()} See {path} --help.")


@click.group("tandem", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tandem")
def main() -> None:
    """Tandem: an LLM server for agents, in one process.

    `tandem serve` starts it, `tandem chat` talks to it, `tandem watch` shows what it does.
    """
