"""tool-eval-bench's fifteen short scenarios, each a stream with tools. The fake wins none; all have to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.conftest import Installed
from tests.clients.driving import Client, Log
from tests.e2e.process import Server


@pytest.mark.spec("API-104", "API-116", "API-138")
def test_it_completes(installed: Installed, tmp_path: Path, fake: Server) -> None:
    client, log = Client(tmp_path), Log(fake)
    command = installed("tool-eval-bench") / "bin" / "tool-eval-bench"
    flags = ("--short", "--no-live", "--json-file", "r.json", "--session-header", "x-session-id")
    client.run(command, "--base-url", fake.base, "--model", "TandemLLM", "--api-key", "k", *flags)
    result = json.loads((client.folder / "r.json").read_text())
    assert (result["status"], result["total_scenarios"]) == ("completed", 15)
    assert result["config"]["error_rate"] == 0
    lines = log.lines(15)
    assert {line["status"] for line in lines} == {"200"}
    assert [line["finish"] for line in lines].count("stop") >= 15
