"""Installs Python packages: `python -m tools.install PYTHON ARG …` is `PYTHON -m pip install ARG …`, by uv.

uv takes seconds where pip takes a minute. It reads nothing of what pip is told (pip.conf, PIP_*), so it is told the
same: which indexes there are, which folder of wheels, which certificate. What uv cannot do, or where it is missing, pip
does.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["as_pip", "environment", "install"]

NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "cert": "SSL_CERT_FILE",
}
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def as_pip(config: str, env: Mapping[str, str]) -> dict[str, str]:
    """`env` with what `pip config list` says, in uv's words; what `env` tells uv itself comes first.

    pip takes the best version of all its indexes, uv by default those of the first index that has the package. And pip
    trusts whom the system trusts.
    """
    told = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_SYSTEM_CERTS": "1"}
    for scope in ("global.", "install.", ":env:."):  # the later wins, as it does for pip
        for key, _, value in (line.partition("=") for line in config.splitlines() if line.startswith(scope)):
            name = NAMES.get(key.removeprefix(scope))
            if name is not None:
                words = str(ast.literal_eval(value)).split()
                told[name] = ("," if name == "UV_FIND_LINKS" else " ").join(words)
    return {**told, **env}


def environment() -> dict[str, str]:
    """This process's environment, with pip's settings in uv's words."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False)
    return as_pip(listed.stdout, os.environ)


def install(python: str, args: Sequence[str], *, env: Mapping[str, str] | None = None) -> int:
    """Install into the environment of `python`; the exit code."""
    uv = Path(sys.prefix) / "bin" / "uv"
    if uv.exists():
        command = [str(uv), "pip", "install", "--quiet", "--python", python, *args]
        if subprocess.run(command, env=env or environment(), check=False).returncode == 0:
            return 0
        print("uv could not; pip tries.", file=sys.stderr)
    return subprocess.run([*PIP, "--python", python, "install", "--quiet", *args], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(install(sys.argv[1], sys.argv[2:]))
