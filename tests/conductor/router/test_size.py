"""How a task grows."""

from __future__ import annotations

import pytest

from tandem.conductor.documents.router import SizeThresholds
from tandem.conductor.router.size import grown
from tandem.conductor.sessions import SizeSignals
from tests.conductor.router.test_digest import USER, called, result

RULES = SizeThresholds()


def after(signals: SizeSignals, *paths: str, told: str = "", tokens: int = 100) -> SizeSignals:
    calls = called(*(("edit", f'{{"path": "{path}"}}') for path in paths))
    return grown(signals, RULES, [USER, calls, result(told)], tokens)


@pytest.mark.spec("EFF-005")
def test_tokens_count_from_the_first_request() -> None:
    first = grown(SizeSignals(), RULES, [USER], 50_000)
    assert (first.first_tokens, first.added_tokens, first.size) == (50_000, 0, "small"), "a client's head has no weight"
    for total, added, size in (
        (69_999, 19_999, "small"),
        (70_000, 20_000, "medium"),
        (110_000, 60_000, "medium"),
        (110_001, 60_001, "large"),
    ):
        now = grown(first, RULES, [USER], total)
        assert (now.added_tokens, now.size) == (added, size)


@pytest.mark.spec("EFF-005")
def test_different_files_count_once() -> None:
    one = after(SizeSignals(), "a.py", "b.py")
    two = after(one, "a.py", "b.py")
    assert (len(two.files), two.size) == (2, "small")
    three = after(two, "c.py")
    assert three.size == "medium"
    assert "c.py" not in repr(three.files), "hashes alone are kept"
    many = after(three, *(f"{at}.py" for at in range(6)))
    assert (len(many.files), many.size) == (9, "large")


@pytest.mark.spec("EFF-005")
def test_gates_and_turns_count() -> None:
    gates = after(SizeSignals(), told="RESULT: FAIL <- check: a, b, c, d")
    assert (gates.gates, gates.size) == (4, "medium")
    assert after(gates, told="RESULT: PASS <- check").gates == 4
    assert after(SizeSignals(), told="RESULT: PASS <- check (9 gates)").size == "large"
    assert after(SizeSignals(turns=28)).size == "small"
    assert after(SizeSignals(turns=29)).size == "medium"
    assert after(SizeSignals(turns=100)).size == "large"


@pytest.mark.spec("EFF-005")
def test_a_task_never_shrinks() -> None:
    large = grown(SizeSignals(first_tokens=0), RULES, [USER], 70_000)
    shorter = grown(large, RULES, [USER], 10)
    assert (shorter.size, shorter.added_tokens) == ("large", 70_000)
    assert after(large).size == "large"


def test_kept_hashes_have_an_end() -> None:
    signals = SizeSignals()
    for at in range(300):
        signals = after(signals, f"{at}.py")
    assert len(signals.files) == 256
