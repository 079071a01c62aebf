"""`tandem serve`: every setting as an option, then the service until a signal ends it."""

from __future__ import annotations

import errno
import os
import socket
import sys
from itertools import groupby
from pathlib import Path

import click

from tandem.config import Setting, SettingError, Settings, declared
from tandem.kinds import Flag

__all__ = ["command"]

HELP = """Serve a model over the OpenAI API until SIGINT or SIGTERM, which let the running answers finish.

Without --model this is the small embedded model, on the CPU; it is fetched first where it is missing.
Each option --some-name is also the environment variable TANDEM_SOME_NAME; the option wins.

\b
Examples:
  tandem serve
  tandem serve --model ~/models/Llama-3.2-1B-Instruct --port 9000
  tandem serve --fake
"""


class Serve(click.Command):
    """Lists the options under the headings of their groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, settings in groupby(declared().values(), key=lambda each: each.group):
            with formatter.section(group):
                formatter.write_dl([_help_row(each) for each in settings], col_max=28)
        with formatter.section("Help"):
            formatter.write_dl([("-h, --help", "Show this text.")])


def _help_row(setting: Setting) -> tuple[str, str]:
    default = "" if isinstance(setting.kind, Flag) else f"  [default: {setting.default}]"
    return f"{setting.flag} {setting.kind.metavar}".rstrip(), setting.help + default


def _option(setting: Setting) -> click.Option:
    # Click hands the text over as it is: config reads flags and variables by the same rules.
    names = [setting.flag, setting.name]
    if isinstance(setting.kind, Flag):
        return click.Option(names, is_flag=True, flag_value="on", default=None, type=str)
    return click.Option(names, default=None, metavar=setting.kind.metavar, type=str)


def _serve(**flags: object) -> None:
    try:
        settings = Settings.from_sources(flags, os.environ)
    except SettingError as error:
        raise click.ClickException(str(error)) from None
    from tandem.serve import run

    try:
        code = run(settings, os.environ)
    except Exception as error:
        message = _for_operator(error, settings)
        if message is None:
            raise
        raise click.ClickException(message) from None
    sys.exit(code)


def _for_operator(error: BaseException, settings: Settings) -> str | None:
    """The one line for an error that the operator can mend; None for any other, whose traceback is then wanted."""
    from tandem.engine.errors import CheckpointError
    from tandem.state import StateLocked

    match error:
        case BaseExceptionGroup():
            lines = [_for_operator(each, settings) for each in error.exceptions]
            return None if None in lines else lines[0]
        case SettingError():
            return str(error)
        case CheckpointError() | StateLocked():
            return " ".join(str(error).split())
        case OSError(filename=str() as name) if Path(name).is_relative_to(settings.state_dir):
            return f"STATE cannot be used: {name}: {error.strerror}. --state-dir names another directory"
        case socket.gaierror():
            return "--host: the name is no address of this machine; 127.0.0.1 serves this machine, 0.0.0.0 all"
        case OSError(errno=errno.EADDRINUSE):
            return "--port: another process listens there; name another port, or 0 for any free one"
        case OSError(errno=errno.EADDRNOTAVAIL):
            return "--host: no address of this machine; 127.0.0.1 serves this machine, 0.0.0.0 all"
        case _:
            return None


command = Serve(
    "serve",
    params=[_option(each) for each in declared().values()],
    callback=_serve,
    help=HELP,
    short_help="Serve a model over the OpenAI API.",
)
