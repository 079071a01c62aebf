"""What holds for every test."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tandem.config import ENV_PREFIX

settings.register_profile("calm", deadline=None)
settings.load_profile("calm")
"""A loaded machine's slow example is no fault: no test is timed."""
settings.register_profile("fuzz", max_examples=20_000, deadline=None)
"""`make fuzz`: --hypothesis-profile=fuzz."""


def pytest_configure(config: pytest.Config) -> None:
    """Triton interprets its kernels on the CPU unless only tests for a GPU run; it looks when it is first imported."""
    if config.option.markexpr != "gpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")
    os.environ.setdefault(
        "TRITON_DEFAULT_FP_FUSION", "1"
    )  # Triton 3.9 warns where nothing is said, and a warning fails


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own TANDEM_* variables change no test."""
    for name in [each for each in os.environ if each.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that nightly.txt names are slow."""
    lines = (Path(__file__).parent / "nightly.txt").read_text("utf-8").splitlines()
    named = {line for line in lines if line and not line.startswith("#")}
    for item in items:
        path, _, rest = item.nodeid.partition("::")
        if path in named or f"{path}::{rest.partition('[')[0]}" in named:
            item.add_marker("slow")
