"""A server of the fake engine, the clients of tools/install_clients.py, and a folder of its own for each run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.e2e.conftest import fake, pytest_runtest_makereport, real, start  # noqa: F401  (fixtures)
from tools.install_clients import FAILED, FOLDER, INSTALLED

__all__ = ["Installed"]

Installed: TypeAlias = Callable[[str], Path]


@pytest.fixture(scope="session")
def installed() -> Installed:
    """The folder of an installed client; a test whose client is not there is skipped, and says why."""

    def folder_of(name: str) -> Path:
        folder = FOLDER / name
        if not (folder / INSTALLED).exists():
            failed = folder / FAILED
            pytest.skip(f"{name}: {failed.read_text() if failed.exists() else 'not installed; run make test-clients'}")
        return folder

    return folder_of
