"""Installs the real clients that tests/clients/ drives: `python -m tools.install_clients [NAME …]`.

Each goes into a folder of its own under `clients/` of the virtual environment that runs this, so that none of its pins
meets ours. What cannot be installed leaves the reason in `FAILED`, and its tests are skipped with it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CLIENTS", "FAILED", "FOLDER", "INSTALLED", "Client", "install"]

FOLDER = Path(sys.prefix) / "clients"
INSTALLED, FAILED = ".installed", ".failed"
TIMEOUT_S = 600.0
INSTALL = Path(__file__).with_name("install.py")


@dataclass(frozen=True, slots=True)
class Client:
    """`packages` are installed together by npm or pip. `quick` ones belong to `make test`."""

    installer: str
    packages: tuple[str, ...]
    quick: bool = True


CLIENTS = {
    "opencode": Client("npm", ("opencode-ai@1.18.33",)),
    "ai-sdk": Client("npm", ("ai@6.0.326", "@ai-sdk/openai-compatible@2.0.92", "zod@4")),
    "hermes": Client("pip", ("hermes-agent==0.19.0",)),
    "tool-eval-bench": Client("pip", ("tool-eval-bench==3.0.0",)),
    "langchain": Client("pip", ("langchain-openai==1.7.4",), quick=False),
    "aider": Client("pip", ("aider-chat==0.86.2",), quick=False),
    "open-webui": Client("pip", ("open-webui==0.12.4", "torch==2.13.0+cpu", "playwright==1.65.2"), quick=False),
}


def install(name: str) -> str | None:
    """Install one client where it is not yet, in this version; what went wrong, None where nothing did."""
    client, folder = CLIENTS[name], FOLDER / name
    wanted = "\n".join(client.packages)
    done = folder / INSTALLED
    if done.exists() and done.read_text() == wanted:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    failure = None
    for command in _commands(client, folder):
        failure = _run(command, folder)
        if failure is not None:
            break
    (folder / (INSTALLED if failure is None else FAILED)).write_text(wanted if failure is None else failure)
    return failure


def _commands(client: Client, folder: Path) -> list[list[str]]:
    if client.installer == "npm":
        flags = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder)]
        return [["npm", "install", *flags, *client.packages]]
    return [
        [sys.executable, "-m", "venv", "--without-pip", str(folder)],
        [sys.executable, str(INSTALL), str(folder / "bin" / "python"), *client.packages],
    ]


def _run(command: Sequence[str], folder: Path) -> str | None:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    return f"{command[0]} ended with {done.returncode}: {lines[-1] if lines else 'no output'}"


def main(names: Sequence[str]) -> None:
    """Without names: the quick ones. A client that cannot be installed is told and ends nothing."""
    chosen = names or [name for name, client in CLIENTS.items() if client.quick]
    with ThreadPoolExecutor(max_workers=2) as pool:
        for name, failure in zip(chosen, pool.map(install, chosen), strict=True):
            if failure is not None:
                print(f"{name} could not be installed, its tests are skipped: {failure}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
