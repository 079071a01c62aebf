"""The table of speculation, and the texts it is measured on."""

from __future__ import annotations

import pytest

from tandem.bench.speculate import WINDOW, speculate
from tandem.bench.subject import BenchError
from tandem.bench.workloads import WORKLOADS
from tests.bench.subjects import Steady


def encode(text: str) -> list[int]:
    return list(text.encode())


def test_ours_is_compared_with_each() -> None:
    subjects = {"tandem": Steady(0.01, counts=True), "llama.cpp": Steady(0.02)}
    report = speculate(subjects, encode, rounds=2, tokens=8, workloads={"fresh prose": WORKLOADS["fresh prose"]})
    ours, theirs = report.rows
    assert ours[1:] == ("tandem", "100", "100.0", "100.0 to 100.0", "2.00", "", "")
    assert theirs[1:] == ("llama.cpp", "50", "50.0", "50.0 to 50.0", "", "2.00 x", ">= 1.3 x")


def test_a_text_that_does_not_fit_is_said() -> None:
    with pytest.raises(BenchError, match=r"edited file takes .* a window of 100 is too short"):
        speculate({"tandem": Steady(0.01)}, encode, rounds=1, window=100, workloads={"edited file": lambda _: "x" * 99})


@pytest.mark.parametrize("name", WORKLOADS)
def test_texts_are_the_same_in_every_run_and_begin_differently(name: str) -> None:
    made = [WORKLOADS[name](number) for number in range(3)]
    assert made == [WORKLOADS[name](number) for number in range(3)]
    assert len({text[:25] for text in made}) == 3
    assert max(map(len, made)) < 3 * WINDOW, "about three letters a token at least"


def test_what_is_copied_stands_in_the_prompt() -> None:
    first, second = WORKLOADS["edited file"](1).split("renamed to figures:\n")
    assert "values" in first
    assert "values" not in second
    assert first.replace("values", "figures").count(second) == 1
    assert len(second) < len(first) / 2
