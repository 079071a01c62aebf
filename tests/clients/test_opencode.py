"""opencode's `run`: a session of two turns with its title, and Ctrl-C. Prompts come by stdin: it quotes arguments."""

from __future__ import annotations

import json
import os
import signal
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from tandem.conductor.lines.frame import without_lines
from tests.clients.conftest import Installed
from tests.clients.driving import Client, Log, written
from tests.e2e.conftest import Start
from tests.e2e.process import Server
from tests.e2e.wire import Connection, health, until
from tests.e2e.wire import fake as scripted

QUIET = {
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}
START_S = 60.0


class OpenCode:
    """A project folder whose only model is the server's."""

    def __init__(self, folder: Path, tmp_path: Path, server: Server) -> None:
        self.client = Client(tmp_path, **QUIET)
        self._command = folder / "node_modules" / ".bin" / "opencode"
        (self.client.folder / "opencode.json").write_text(json.dumps(config(server)))

    def command(self, *flags: str) -> tuple[str | Path, ...]:
        return (self._command, "run", "--format", "json", *flags)

    def run(self, prompt: str, *flags: str) -> list[dict[str, Any]]:
        """The parts of its answer."""
        out = self.client.run(*self.command(*flags), typed=prompt)
        events = [json.loads(line) for line in out.splitlines()]
        assert not [event for event in events if event["type"] == "error"], events
        return [event["part"] for event in events]


def config(server: Server) -> dict[str, Any]:
    model = {
        "name": "Tandem",
        "reasoning": True,
        "tool_call": True,
        "limit": {"context": 131_072, "output": 8_192},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Tandem",
        "options": {"baseURL": f"{server.base}/v1", "apiKey": "sk-local"},
        "models": {"TandemLLM": model},
    }
    return {
        "$schema": "https://opencode.ai/config.json",
        "model": "tandem/TandemLLM",
        "small_model": "tandem/TandemLLM",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"tandem": provider},
        "permission": {"edit": "allow", "bash": "allow", "webfetch": "deny"},
    }


def of_type(parts: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [part for part in parts if part["type"] == kind]


@pytest.mark.spec("API-042", "API-069", "API-072", "API-104", "API-105", "API-106")
def test_a_call_the_title_beside_it_and_a_second_turn(installed: Installed, tmp_path: Path, start: Start) -> None:
    server = start("--reasoning-format", "reasoning_content")
    opencode, log = OpenCode(installed("opencode"), tmp_path, server), Log(server)
    text = 'first "line"\n\n  <second> & last\n'
    call = written("write", filePath=str(opencode.client.folder / "made.txt"), content=text)
    look = written("bash", command="wc -l made.txt", description="Counts lines")
    turns = [f"<think>And look.</think>\n{look}", "<think>Good.</think>\n\nThe file has three lines."]
    say = f"<think>I write it.</think>\n\nA moment.\n{call}"
    parts = opencode.run(scripted(say=say, turns=[{"say": turn} for turn in turns]), "--thinking")
    assert (opencode.client.folder / "made.txt").read_text() == text
    assert [part["text"] for part in of_type(parts, "reasoning")] == ["I write it.", "And look.", "Good."]
    assert [part["text"].strip() for part in of_type(parts, "text")] == ["A moment.", "The file has three lines."]
    tools = of_type(parts, "tool")
    assert [(part["tool"], part["state"]["status"]) for part in tools] == [
        ("write", "completed"),
        ("bash", "completed"),
    ]
    assert tools[1]["state"]["output"].startswith("3 made.txt")
    lines = log.lines(4)  # the title's among them
    assert sorted(line["finish"] for line in lines) == ["stop", "stop", "tool_calls", "tool_calls"]
    title = min(lines, key=lambda line: int(line["prompt_tokens"]))
    assert title["completion_tokens"] == "2"
    steps = of_type(parts, "step-finish")
    assert [step["reason"] for step in steps] == ["tool-calls", "tool-calls", "stop"]
    main = [line for line in lines if line is not title]
    assert [step["tokens"]["input"] for step in steps] == [int(line["prompt_tokens"]) for line in main]
    assert [step["tokens"]["reasoning"] for step in steps] == [int(line["reasoning_tokens"]) for line in main]
    again = opencode.run(scripted(say="It still has three."), "-c")
    assert [part["text"] for part in of_type(again, "text")] == ["It still has three."]
    [*_, last] = lines = log.lines(5)
    assert int(last["prompt_tokens"]) > int(main[-1]["prompt_tokens"])
    assert {(line["client"], line["status"]) for line in lines} == {("opencode", "200")}


@pytest.mark.spec("API-167", "API-168")
def test_ctrl_c_frees_the_slot(installed: Installed, tmp_path: Path, fake: Server) -> None:
    opencode, log = OpenCode(installed("opencode"), tmp_path, fake), Log(fake)
    (opencode.client.folder / "prompt").write_text(scripted(say="word ", loop=True, token_ms=50))
    shell = ("sh", "-c", 'exec "$@" < prompt', "sh", *opencode.command("--title", "none"))
    with opencode.client.started(*shell) as process:
        until(lambda: health(fake.port)["inflight"]["running"] == 1, timeout_s=START_S)
        os.killpg(process.pid, signal.SIGINT)
        [line] = log.lines(1)
        process.wait(20)
    assert (line["client"], line["finish"]) == ("opencode", "abandoned")
    assert health(fake.port)["inflight"]["running"] == 0


@pytest.mark.slow
@pytest.mark.spec("PRF-006", "SES-009", "SES-011", "SES-015", "NOTE-011", "JRN-002", "RTR-003")
def test_a_session_runs_under_its_profile(installed: Installed, tmp_path: Path, start: Start) -> None:
    server = start("--conductor-config", "conductor")
    opencode, log = OpenCode(installed("opencode"), tmp_path, server), Log(server)
    call = written("write", filePath=str(opencode.client.folder / "made.txt"), content="text\n")
    say = f"<think>I write it.</think>\n\nA moment.\n{call}"
    asked = scripted(say=say, turns=[{"say": "It is written."}], choose={"code_edit": 0.9})
    parts = opencode.run(f"Write a file. {asked}", "--thinking")
    assert [part["text"] for part in of_type(parts, "reasoning")] == ["I write it."]
    again = opencode.run(scripted(say="It is still there.", choose={"code_edit": 0.9}), "-c")
    [said] = [part["text"] for part in of_type(again, "text")]
    assert (without_lines(said), "\u203a Code, xhigh effort" in said) == ("It is still there.", True)
    log.lines(4)
    with Connection(server.port) as client:
        until(lambda: all(row["outcome"] for row in decisions(client)))
        side, *rows = sorted(decisions(client), key=lambda row: (row["kind"] != "side", row["id"]))
        key = urllib.parse.quote(rows[0]["session_key"], safe="")
        exported = client.ask("GET", f"/v1/conductor/sessions/{key}/export?format=md").body.decode()
    assert (side["decision"], side["detail"]["cap"]) == ("opencode-title", 64)
    assert [(row["detail"]["turn"], row["class"]) for row in rows] == [
        ("user", "code_edit"),
        ("tool", "code_edit"),
        ("user", "code_edit"),
    ]
    assert {(row["profile"], row["mode"], row["client_kind"]) for row in (side, *rows)} == {
        ("coding", "on", "opencode")
    }
    assert {row["session_key"] for row in rows} == {rows[0]["session_key"]}
    first, *later = ([note["kind"] for note in row["detail"]["notes"]] for row in rows)
    assert first == ["new"]
    assert all(kinds[0] == "replayed" for kinds in later)
    assert "Reasoning effort is set to xhigh" in exported
    assert "@fake" not in exported


def decisions(client: Connection) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.ask("GET", "/v1/conductor/decisions").json["decisions"]
    return found
