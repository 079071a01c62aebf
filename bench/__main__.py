"""`python -m bench`: `tandem bench` with other engines beside Tandem, and what else a checkout measures."""

from __future__ import annotations

from bench import hybrid, ledger, smoke
from bench.conductor import command as conductor
from bench.conductor import sessions_command as sessions
from bench.kernels import main as kernels
from bench.load import soak
from bench.load.command import command as load
from bench.monitor.claims_command import command as claims
from bench.monitor.command import command as monitor
from bench.peers import PEERS
from bench.resume import command as resume
from bench.step import main as step
from tandem.cli.bench import command

__all__: list[str] = []

if __name__ == "__main__":
    command.add_command(kernels, "kernels")
    command.add_command(step, "step")
    command.add_command(resume, "resume")
    command.add_command(ledger.command, "ledger")
    command.add_command(hybrid.command, "hybrid")
    command.add_command(conductor.command, "conductor")
    command.add_command(sessions.command, "sessions")
    command.add_command(monitor, "monitor")
    command.add_command(claims, "claims")
    command.add_command(load, "load")
    command.add_command(soak.command, "soak")
    command.add_command(smoke.command, "smoke")
    command(obj=PEERS, prog_name="python -m bench")
