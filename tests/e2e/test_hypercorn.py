"""The same service under plain Hypercorn, with the shipped configuration (API-251)."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.process import Server, clean_env, free_port
from tests.e2e.wire import CHAT, Connection, chat, health, post


def launch(home: Path, *flags: str, **env: str) -> tuple[Server, int]:
    """Hypercorn, not waited for, and the port it is to take."""
    home.mkdir(exist_ok=True)
    port = free_port()
    options = ["--config", "ops/hypercorn.toml", "--bind", f"127.0.0.1:{port}", *flags]
    env = {"TANDEM_FAKE": "on", "TANDEM_STATE_DIR": str(home / "state"), **env}
    return Server.launch(
        [sys.executable, "-m", "hypercorn", *options, "tandem.asgi:app"], home, clean_env(home, **env)
    ), port


@pytest.mark.spec("API-251")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_stops(tmp_path: Path, number: signal.Signals) -> None:
    server, port = launch(tmp_path)
    try:
        server.wait_open(port)
        assert health(port)["status"] == "ok"
        assert post(port, chat({"say": "good day"})).text == "good day"
        with Connection(port) as idle, Connection(port) as client:
            idle.ask("GET", "/v1/models")
            client.send("POST", CHAT, chat({"say": "one two three four", "token_ms": 150}, stream=True))
            reply = client.head()
            pieces = client.pieces()
            reply.pieces.append(next(pieces))
            begun = time.monotonic()
            server.signal(number)
            reply.pieces += pieces
            reply.body = b"".join(piece for _, piece in reply.pieces)
            assert reply.text == "one two three four"
            assert reply.is_done
            assert server.wait_exit() == 0
            assert time.monotonic() - begun < 5
            assert idle.is_closed_by_server()
        assert (tmp_path / "state/lock").read_text() == ""
    finally:
        server.kill()


@pytest.mark.spec("API-251", "API-259", "SCH-116")
def test_two_workers_are_refused(tmp_path: Path) -> None:
    server, _ = launch(tmp_path, "--workers", "2")
    try:
        server.wait_exit()  # with either code: Hypercorn's parent process loses its workers' (0.18)
        assert "is in use by process" in server.log
    finally:
        server.kill()


@pytest.mark.spec("API-251", "API-008")
@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"TANDEM_MAX_QUEUE": "0"}, "TANDEM_MAX_QUEUE: '0' is not allowed"),
        ({"TANDEM_FAKE": "off", "TANDEM_MODEL": "/nonexistent"}, "--model /nonexistent"),
        ({"TANDEM_STATE_DIR": "/proc/nothing"}, "/proc/nothing"),
    ],
)
def test_a_failed_start_ends_the_process(tmp_path: Path, env: dict[str, str], message: str) -> None:
    server, _ = launch(tmp_path, **env)
    try:
        assert server.wait_exit() == 1
        [line] = [line for line in server.log.splitlines() if "[service] the start failed: " in line]
        assert message in line
    finally:
        server.kill()
