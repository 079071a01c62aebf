"""`python -m bench`: `tandem bench` with other engines beside Tandem."""

from __future__ import annotations

from bench.peers import PEERS
from tandem.cli.bench import command

__all__: list[str] = []

if __name__ == "__main__":
    command(obj=PEERS, prog_name="python -m bench")
