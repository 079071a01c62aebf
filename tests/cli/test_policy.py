"""`tandem policy` and `tandem monitor` as a person runs them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tandem.cli import main
from tandem.cli.monitor import with_tasks
from tandem.conductor.monitor.policy import shipped_body, shipped_text

BODY = shipped_body()
IDS = [task["id"] for task in BODY["tasks"]]


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.spec("MON-018")
def test_the_policy_that_ships_is_checked() -> None:
    result = run("policy", "check")
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"{len(IDS)} tasks" in result.stdout
    schema = json.loads(run("policy", "check", "--schema").stdout)
    assert schema["$schema"].endswith("2020-12/schema")


@pytest.mark.spec("MON-018")
def test_exit_codes_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        shipped_text().replace("acts_per_request: 4", "acts_per_request: many").replace("nudge:", "nudged:")
    )
    result = run("policy", "check", str(path))
    assert result.exit_code == 1
    assert sorted(line.split(":")[0] for line in result.stderr.splitlines()) == [
        "caps.acts_per_request",
        "texts.nudge",
        "texts.nudged",
    ]
    path.write_text("policy: 1\npolicy: 2\n")
    assert (run("policy", "check", str(path)).exit_code, run("policy", "check", "/nowhere").exit_code) == (1, 2)
    path.write_text("a: [")
    assert run("policy", "check", str(path)).exit_code == 2


@pytest.mark.spec("MON-020")
def test_a_start_with_an_invalid_policy_prints_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        shipped_text().replace("acts_per_request: 4", "acts_per_request: many").replace("nudge:", "nudged:")
    )
    lines = run("policy", "check", str(path)).stderr.splitlines()
    start = run("serve", "--fake", "--conductor", "on", "--conductor-policy", str(path))
    assert start.exit_code == 1
    said = start.stderr.removeprefix("Error: ").splitlines()
    assert said == [f"--conductor-policy: {path}: {line}" for line in lines]
    assert len(lines) == 3


@pytest.mark.spec("MON-024")
def test_missing_tasks_come_to_their_places() -> None:
    own = {"id": "mine", "rule": "x"}
    stored = {**BODY, "tasks": [own, *[task for task in BODY["tasks"] if task["id"] not in ("D2", "E2", IDS[0])]]}
    before = copy.deepcopy(stored)
    changed, added = with_tasks(stored, BODY["tasks"], IDS)
    assert added == [IDS[0], "D2", "E2"]
    assert [task["id"] for task in changed["tasks"]] == [IDS[0], "mine", *IDS[1:]]
    assert stored == before
    assert with_tasks(stored, BODY["tasks"], ["E2"])[1] == ["E2"]
    assert with_tasks(changed, BODY["tasks"], IDS) == (changed, [])


class Stored:
    """A server with one monitor document."""

    def __init__(self, document: Any, version: int) -> None:
        self.answer = {"document": document, "version": version}
        self.put: list[tuple[dict[str, Any], str | None]] = []


@contextmanager
def serving(stored: Stored) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say({**stored.answer} if self.path == "/v1/conductor/monitor" else {})

        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stored.put.append((body, self.headers["Authorization"]))
            self._say({"version": stored.answer["version"] + 1})

        def _say(self, value: dict[str, Any]) -> None:
            raw = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.spec("MON-024")
def test_a_server_gets_the_tasks_it_lacks() -> None:
    stored = Stored({**BODY, "tasks": BODY["tasks"][:-1]}, 3)
    with serving(stored) as url:
        result = run("monitor", "migrate", "--put", url, "--token", "t")
        assert result.stdout == f"added {IDS[-1]}; stored as version 4\n"
        [(body, key)] = stored.put
        assert (body["document"], body["base_version"], key) == (BODY, 3, "Bearer t")
        assert body["note"]
        stored.answer["document"] = BODY
        assert "has them all" in run("monitor", "migrate", "--put", url).stdout
        stored.answer["version"] = 0
        assert "policy file" in run("monitor", "migrate", "--put", url).stdout
    assert len(stored.put) == 1
    unknown = run("monitor", "migrate", "--put", url, "--tasks", "Q9")
    assert unknown.exit_code == 1
    assert "no task Q9 ships" in unknown.stderr
    gone = run("monitor", "migrate", "--put", url)
    assert (gone.exit_code, "no server answers" in gone.stderr) == (1, True)
