"""The `tandem` command."""

from tandem.cli.app import main

__all__ = ["main"]
