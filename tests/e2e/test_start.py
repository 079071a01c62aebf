"""Starts, refused starts, and where state is kept."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.e2e.process import Server, clean_env, finish
from tests.e2e.wire import chat, health, post


def refused(home: Path, *flags: str, code: int = 1, **env: str) -> str:
    """The one line on stderr of a start that fails."""
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tandem", "serve", "--port", "0", *flags]
    ended, _, stderr = finish(command, clean_env(home, **env))
    assert ended == code, stderr
    [line] = stderr.splitlines()
    return line


@pytest.mark.spec("API-002")
def test_nothing_answers_before_the_model_is_loaded(real: Server) -> None:
    assert real.refused_before_ready > 10
    assert health(real.port)["status"] == "ok"


@pytest.mark.spec("API-053", "API-052", "ENG-003")
def test_health_names_the_model(real: Server) -> None:
    body = health(real.port)
    assert (body["model"], body["base_model"]) == ("TandemLLM", "SmolLM2-135M-Instruct.Q4_1")
    assert body["weights"]["self_check"] == "ok"


@pytest.mark.spec("API-259")
def test_a_second_process_on_the_same_state_is_refused(start: Start, tmp_path: Path) -> None:
    first = start()
    line = refused(tmp_path / "second", "--fake", "--state-dir", str(first.home / "state"))
    assert f"process {first.process.pid}" in line
    assert "--state-dir" in line
    assert post(first.port, chat({"say": "undisturbed"})).text == "undisturbed"
    first.stop()
    start("--state-dir", str(first.home / "state"))


def test_a_killed_process_leaves_its_state_usable(start: Start) -> None:
    first = start()
    first.kill()
    start("--state-dir", str(first.home / "state"))


def test_a_port_in_use(fake: Server, tmp_path: Path) -> None:
    line = refused(tmp_path, "--fake", "--port", str(fake.port))
    assert line.startswith("Error: --port: another process listens there")


@pytest.mark.spec("API-008")
@pytest.mark.parametrize(
    ("flags", "env", "code", "message"),
    [
        (["--no-such-flag"], {}, 2, "--no-such-flag"),
        (["--max-queue", "0"], {}, 1, "--max-queue: '0' is not allowed"),
        ([], {"TANDEM_MAX_QUEUE": "many"}, 1, "TANDEM_MAX_QUEUE: 'many' is not allowed"),
        (["--model", "/nonexistent/model"], {}, 1, "--model /nonexistent/model"),
        (["--fake", "--host", "192.0.2.1"], {}, 1, "--host"),
    ],
    ids=["unknown", "flag", "variable", "model", "host"],
)
def test_a_start_that_cannot_be(tmp_path: Path, flags: list[str], env: dict[str, str], code: int, message: str) -> None:
    assert message in refused(tmp_path, *flags, code=code, **env)


@pytest.mark.spec("OBS-016", "ENG-173")
def test_a_fake_server_keeps_its_state_in_a_temporary_directory(tmp_path: Path) -> None:
    server = Server.tandem(tmp_path, "--fake", "--usage-ledger", "ledger.sqlite3")
    try:
        found = re.search(r"\[state\] kept in (\S+) ", server.log)
        assert found is not None
        state = Path(found[1])
        assert (state / "lock").read_text().strip() == str(server.process.pid)
        assert (state / "ledger.sqlite3").exists()
        assert server.stop() == 0
        assert not state.exists()
        assert not (tmp_path / ".tandem").exists()
    finally:
        server.kill()
