"""A subject in a process of its own."""

from __future__ import annotations

import os

import pytest

from tandem.bench.subject import BenchError, Build, Remote, SecondTurn
from tests.bench import subjects


def test_calls_cross_and_come_back() -> None:
    remote = Remote(subjects.build)
    remote.wait()
    assert remote.about() not in ("", f"steady, process {os.getpid()}")
    assert remote.prefill([1, 2]) == 1.0
    assert remote.decode([1], 3) == 0.5
    assert remote.second_turn([1], 1, [2], 1) == SecondTurn(1.0, 0.5)
    remote.close()
    remote.close()


@pytest.mark.parametrize(
    ("build", "message"),
    [(subjects.failing, "RuntimeError: no such thing"), (subjects.dying, "exit code 3")],
)
def test_a_failed_load_is_one_line(build: Build, message: str) -> None:
    remote = Remote(build)
    with pytest.raises(BenchError, match=message):
        remote.wait()
    remote.close()


def test_a_process_that_ends_in_a_measurement_is_one_line() -> None:
    remote = Remote(subjects.fatal)
    remote.wait()
    for _ in range(2):
        with pytest.raises(BenchError, match="exit code 3"):
            remote.decode([1], 1)
    remote.close()
