"""Two runs and a verdict (ENG-066)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.bench.judge import TIE_NATS, Run, Step, judge

END = 0


def run(*steps: Step | int) -> Run:
    return Run.of([step if isinstance(step, Step) else Step(step) for step in steps], frozenset({END}))


def fork(token: int, runner_up: int, gap: float) -> Run:
    return run(5, 6, Step(token, runner_up, gap), 9)


@pytest.mark.spec("ENG-066")
def test_equal_runs_have_no_fork() -> None:
    verdict = judge(run(5, 6, END), run(5, 6, END), "bit")
    assert (verdict.compared, verdict.fork, verdict.behind, verdict.is_defect) == (3, None, None, False)


@pytest.mark.spec("ENG-066")
def test_a_near_tie_is_named_with_position_ids_and_gaps() -> None:
    verdict = judge(fork(7, 8, 0.125), fork(8, 7, 0.03))
    assert verdict.fork is not None
    assert (verdict.fork.position, verdict.fork.is_near_tie, verdict.is_defect) == (2, True, False)
    assert verdict.fork.words == "position 2: 7 before 8 by 0.1250 | 8 before 7 by 0.0300, near tie"


def drawn(token: int, runner_up: int, *kept: int, edge: float = 1.0) -> Run:
    """A draw whose noise decided by far."""
    return run(5, 6, Step(token, runner_up, 1.5, frozenset(kept), edge))


@pytest.mark.spec("ENG-066")
def test_a_token_that_has_barely_passed_the_cut_is_a_near_tie_with_what_comes_in_its_place() -> None:
    barely, without = drawn(7, 8, 7, 8, 9, edge=0.001), drawn(8, 9, 8, 9, 4)
    assert not judge(barely, without).is_defect
    assert not judge(without, barely).is_defect
    assert judge(drawn(7, 8, 7, 8, 9, edge=0.126), without).is_defect  # it was well inside
    assert judge(barely, drawn(8, 9, 7, 8, 9)).is_defect  # the other could have taken it
    assert judge(barely, drawn(9, 8, 8, 9, 4)).is_defect  # not what would have come in its place
    assert judge(barely, without, "bit").is_defect


@pytest.mark.spec("ENG-066")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(fork(7, 8, 0.126), fork(8, 7, 0.01), id="wide gap"),
        pytest.param(fork(7, 8, 0.01), fork(8, 7, 0.126), id="wide gap of the other"),
        pytest.param(fork(7, 8, 0.01), fork(8, 3, 0.01), id="another runner-up"),
        pytest.param(fork(7, 3, 0.01), fork(8, 7, 0.01), id="another runner-up of the first"),
        pytest.param(run(5, 6, 7), run(5, 6, 8), id="forced tokens"),
        pytest.param(run(5, 6), run(5, 6, 7), id="one is shorter"),
        pytest.param(run(5, 6, END), run(5, 6, END, 7), id="one goes on behind its end"),
    ],
)
def test_all_else_is_a_defect(one: Run, other: Run) -> None:
    verdict = judge(one, other)
    if one.end == other.end < 3:  # behind the end of both, which is told apart
        assert verdict.behind is not None
        assert not verdict.is_defect
    else:
        assert verdict.is_defect
        assert verdict.fork is not None
        assert verdict.fork.words.endswith("DEFECT")


@pytest.mark.spec("ENG-066")
def test_a_bit_promise_knows_no_near_tie() -> None:
    assert judge(fork(7, 8, 0.0), fork(8, 7, 0.0), "bit").is_defect


@pytest.mark.spec("ENG-066")
@pytest.mark.parametrize("step", [Step(7, 8, 0.5 + 2**-50), Step(7, 9, 0.5)])
def test_a_bit_promise_is_of_the_numbers_too(step: Step) -> None:
    """A row that lost a bit and still gives the same token is not the same row."""
    plain, other = run(5, Step(7, 8, 0.5), 9), run(5, step, 9)
    assert judge(plain, other, "bit").is_defect
    assert judge(plain, other, "text").fork is None


@pytest.mark.spec("ENG-066")
def test_an_answer_that_ends_against_one_that_goes_on_is_judged_like_any_fork() -> None:
    assert not judge(run(5, Step(END, 7, 0.1)), run(5, Step(7, END, 0.1), 8)).is_defect
    assert judge(run(5, Step(END, 7, 0.2)), run(5, Step(7, END, 0.1), 8)).is_defect


@pytest.mark.spec("ENG-066")
def test_positions_behind_the_end_are_judged_apart() -> None:
    verdict = judge(run(5, END, 6), run(5, END, 7))
    assert (verdict.fork, verdict.is_defect) == (None, False)
    assert verdict.behind is not None
    assert verdict.behind.position == 2


steps = st.builds(Step, st.integers(0, 4), st.integers(0, 4), st.floats(0, 0.3))
runs = st.lists(steps, max_size=6).map(lambda made: Run.of(made, frozenset({END})))


@given(runs, runs)
def test_a_verdict_has_no_favourite(one: Run, other: Run) -> None:
    this, that = judge(one, other), judge(other, one)
    assert (this.compared, this.is_defect) == (that.compared, that.is_defect)
    assert (this.fork is None, this.behind is None) == (that.fork is None, that.behind is None)
    same = one.steps[: this.compared], other.steps[: this.compared]
    assert [step.token for step in same[0]] == [step.token for step in same[1]]
    if this.fork is not None and this.fork.is_near_tie:
        assert this.fork.one is not None
        assert this.fork.one.gap <= TIE_NATS
