"""What holds for every test."""

import functools
import gc
import os
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import settings

from tandem.config import ENV_PREFIX

ROOT = Path(__file__).parents[1]

settings.register_profile("calm", deadline=None)
settings.load_profile("calm")
"""A loaded machine's slow example is no fault: no test is timed."""
settings.register_profile("fuzz", max_examples=20_000, deadline=None)
"""`make fuzz`: --hypothesis-profile=fuzz."""


gc.set_threshold(50_000, 20, 100)
"""Python's own 700 costs a seventh of all the time that the tests take."""


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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A whole file of slow tests is not even imported where no slow test runs."""
    slow = collection_path.is_relative_to(ROOT) and str(collection_path.relative_to(ROOT)) in nightly()
    return True if slow and "not slow" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that nightly.txt names are slow."""
    named = nightly()
    for item in items:
        path, _, rest = item.nodeid.partition("::")
        if path in named or f"{path}::{rest.partition('[')[0]}" in named:
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the garbage collector need not look through it again."""
    gc.collect()
    gc.freeze()


@functools.cache
def nightly() -> Collection[str]:
    """The files and functions that nightly.txt names."""
    lines = (ROOT / "tests" / "nightly.txt").read_text("utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))
