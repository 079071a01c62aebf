"""What holds for every test."""

import os

import pytest

from tandem.config import ENV_PREFIX


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own TANDEM_* variables change no test."""
    for name in [each for each in os.environ if each.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)
