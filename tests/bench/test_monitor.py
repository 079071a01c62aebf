"""A share of the bench of the loop guards: what `python -m bench monitor` finds in all of it."""

from __future__ import annotations

import pytest

from bench.monitor.command import judge_of, reports
from bench.monitor.loops import endless_outputs
from bench.monitor.outputs import normal_outputs
from tandem.engine.fake.vocabulary import Vocabulary


@pytest.mark.spec("MON-104")
def test_no_sound_output_is_stopped_and_every_endless_one_is_in_time() -> None:
    """H-05, and H-02 among the endless. The fake cuts into more tokens than a model, so both are harder."""
    judge = judge_of(Vocabulary())
    normal = [walk for output in normal_outputs(41) for walk in judge.normal(output)]
    endless = [judge.endless(loop) for loop in endless_outputs(17)]
    assert len(normal) > 80
    assert [walk for walk in normal if walk.reason] == []
    assert [walk for walk in endless if walk.reason is None or walk.late > walk.within] == []
    assert [len(report.rows) for report in reports(normal, endless)] == [
        len({walk.kind for walk in normal}),
        len({walk.kind for walk in endless}),
        3,
    ]
