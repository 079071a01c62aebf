"""The Hermes agent: one command with a tool call, and the paths it looks for servers on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from tests.clients.conftest import Installed
from tests.clients.driving import Client, Log, written
from tests.clients.relay import Exchange, relay
from tests.e2e.process import Server
from tests.e2e.wire import fake as scripted

UNKNOWN = {"/api/v1/models", "/api/tags", "/v1/props", "/props", "/version"}


@dataclass(frozen=True, slots=True)
class Session:
    """What one command printed, wrote, asked and left in the server's log."""

    printed: str
    written: str
    exchanges: list[Exchange]
    lines: list[dict[str, str]]


@pytest.fixture(scope="module")
def session(installed: Installed, fake: Server, tmp_path_factory: pytest.TempPathFactory) -> Session:
    client, log = Client(tmp_path_factory.mktemp("hermes")), Log(fake)
    call = written("terminal", command="printf '%s' 42 > made.txt")
    prompt = scripted(
        say=f"<think>I write it.</think>\n\n{call}", turns=[{"say": "<think>Good.</think>\n\nIt is written."}]
    )
    with relay(fake.port) as (port, exchanges):
        folder = client.home / ".hermes"
        folder.mkdir()
        base = f"http://127.0.0.1:{port}/v1"
        (folder / "config.yaml").write_text(
            f"model: {{default: TandemLLM, provider: custom, base_url: '{base}', api_key: sk-local}}\n"
        )
        printed = client.run(installed("hermes") / "bin" / "hermes", "-z", prompt)
        made = client.folder / "made.txt"
        return Session(printed, made.read_text() if made.exists() else "", list(exchanges), log.lines(2))


@pytest.mark.spec("API-072", "API-105", "API-106")
def test_a_call_and_the_answer(session: Session) -> None:
    assert session.written == "42"
    assert session.printed.strip().endswith("It is written.")
    assert [line["finish"] for line in session.lines] == ["tool_calls", "stop"]
    assert all(int(line["reasoning_tokens"]) > 0 for line in session.lines)


@pytest.mark.spec("API-069")
def test_it_is_known_by_what_it_sends(session: Session) -> None:
    assert {(line["client"], line["status"]) for line in session.lines} == {("hermes", "200")}


@pytest.mark.spec("API-005", "API-006", "API-049")
def test_what_it_looks_for_is_answered_at_once(session: Session) -> None:
    found = Counter((exchange.path, exchange.status) for exchange in session.exchanges if exchange.method == "GET")
    assert found.total() > 5
    assert {path for path, status in found if status == 404} == UNKNOWN
    assert {path for path, status in found if status == 200} == {"/v1/models"}
    assert all(exchange.took_s < 1 for exchange in session.exchanges if exchange.method == "GET")
