"""Medians, percentiles and the order of measurements."""

from __future__ import annotations

from tandem.bench.stats import Summary, interleaved, percentile, ratio, summary


def test_summary() -> None:
    assert summary([3.0, 1.0, 2.0]) == Summary(2.0, 1.0, 3.0)
    assert summary([4.0]) == Summary(4.0, 4.0, 4.0)


def test_percentile_is_the_nearest_rank() -> None:
    values = [float(each) for each in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50, 99, 100)
    assert percentile([7.0], 0.01) == 7.0


def test_a_ratio_compares_within_rounds() -> None:
    # The second round was twice as slow for both, which a ratio of medians would show.
    assert ratio([10.0, 5.0, 10.0], [5.0, 2.5, 5.0]) == 2.0


def test_subjects_take_turns() -> None:
    order: list[str] = []
    done: list[None] = []

    def measure(subject: str, case: int) -> int:
        order.append(f"{subject}{case}")
        return case

    values = interleaved({"ours": "a", "theirs": "b"}, [1, 2], measure, lambda: done.append(None))
    assert order == ["a1", "b1", "a2", "b2"]
    assert values == {"ours": [1, 2], "theirs": [1, 2]}
    assert len(done) == 4
