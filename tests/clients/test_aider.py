"""aider: one edit of a file in its own search-and-replace form, for which it needs no tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Installed
from tests.clients.driving import Client, Log
from tests.e2e.process import Server
from tests.e2e.wire import fake as scripted

pytestmark = pytest.mark.slow  # to install

FLAGS = (
    "--yes-always",
    "--no-check-update",
    "--no-show-model-warnings",
    "--analytics-disable",
    "--no-gitignore",
    "--no-auto-commits",
    "--no-pretty",
    "--edit-format=diff",
    "--map-tokens=0",
)


@pytest.mark.spec("API-074", "API-138")
def test_it_edits_a_file(installed: Installed, tmp_path: Path, fake: Server) -> None:
    client, log = Client(tmp_path, OPENAI_API_BASE=f"{fake.base}/v1", OPENAI_API_KEY="sk-local"), Log(fake)
    (client.folder / "sum.py").write_text("print(1 + 1)\n")
    subprocess.run(["git", "init", "--quiet", str(client.folder)], check=True)
    edit = "sum.py\n```python\n<<<<<<< SEARCH\nprint(1 + 1)\n=======\nprint(1 + 2)\n>>>>>>> REPLACE\n```\n"
    prompt = scripted(say=f"<think>A small edit.</think>\n\nI change it.\n\n{edit}")
    command = installed("aider") / "bin" / "aider"
    client.run(command, "--model", "openai/TandemLLM", *FLAGS, "--message", prompt, "sum.py")
    assert (client.folder / "sum.py").read_text() == "print(1 + 2)\n"
    assert {(line["client"], line["status"], line["finish"]) for line in log.lines(1)} == {
        ("openai-sdk", "200", "stop")
    }
