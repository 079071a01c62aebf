"""Real servers for the tests of this directory. A failed test shows the end of the logs of the servers it used."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.e2e.process import Server, free_port

__all__ = ["Start"]

Start: TypeAlias = Callable[..., Server]


@pytest.fixture(scope="session")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the fake engine that all tests share."""
    server = Server.tandem(tmp_path_factory.mktemp("fake"), "--fake")
    yield server
    assert server.stop() == 0, server.shown_log


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start("--flag", …)`: a server of the fake engine of the test's own. What still runs is stopped at the end."""
    servers: list[Server] = []

    def start_one(*flags: str, **env: str) -> Server:
        home = tmp_path / f"home{len(servers)}"
        home.mkdir()
        servers.append(Server.tandem(home, "--fake", "--state-dir", str(home / "state"), *flags, env=env))
        return servers[-1]

    start_one.servers = servers  # type: ignore[attr-defined]  # for the report of a failure
    yield start_one
    codes = [server.stop() for server in servers if server.process.poll() is None]
    assert codes == [0] * len(codes)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the embedded model that all tests share. The model is fetched at most once a machine."""
    home = tmp_path_factory.mktemp("real")
    link_model(home / ".tandem")
    server = Server.tandem(home, "--usage-ledger", "usage/ledger.sqlite3", port=free_port())
    yield server
    assert server.stop() == 0, server.shown_log


def link_model(state: Path) -> None:
    """Give a state directory the machine's copy of the embedded model."""
    from tests.embedded import embedded_path  # imports what only the model needs

    state.mkdir()
    (state / "models").symlink_to(embedded_path().parent)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            servers = [value] if isinstance(value, Server) else getattr(value, "servers", [])
            report.sections.extend((f"log of {name}", server.shown_log) for server in servers)
    return report
