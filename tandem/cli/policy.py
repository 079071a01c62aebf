"""`tandem policy`: checks a policy of the session monitor, and prints its schema (MON-017, MON-018)."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


class Unreadable(click.ClickException):
    """The file cannot be read, or is no YAML."""

    exit_code = 2


@click.group(short_help="Check a policy of the session monitor.")
def command() -> None:
    """Look after the session monitor's policy, the file of --conductor-policy."""


@command.command(short_help="Say what is wrong with a policy.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--schema", is_flag=True, help="Print the policy's JSON Schema instead.")
def check(file: Path | None, schema: bool) -> None:
    """Check FILE, or the policy that ships: one line for each problem, and exit code 1; 2 for a file that is no YAML.

    \b
    Examples:
      tandem policy check my-policy.yaml
      tandem policy check --schema > policy.schema.json
    """
    from tandem.conductor.monitor import rules  # noqa: F401  (registers them)
    from tandem.conductor.monitor.policy import NotYaml, PolicyError, body_of, policy_of, shipped_body
    from tandem.conductor.monitor.schema import schema_text
    from tandem.conductor.monitor.tier0 import registered

    if schema:
        click.echo(schema_text(registered()), nl=False)
        return
    try:
        policy = policy_of(shipped_body() if file is None else body_of(file))
    except NotYaml as error:
        raise Unreadable(f"{file or 'the policy that ships'}: {error}") from None
    except PolicyError as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        raise SystemExit(1) from None
    click.echo(f"revision {policy.revision}, {len(policy.tasks)} tasks, nothing wrong")
