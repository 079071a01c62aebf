"""E2 on the scripted sessions of `bench monitor`: what is structural is right on all of them."""

from __future__ import annotations

import pytest

from bench.monitor.claims import faults, report, run


@pytest.mark.spec("MON-058", "MON-065", "MON-068")
def test_no_note_is_false_and_none_is_missing() -> None:
    found = run()
    assert len(found) >= 100
    assert faults(found) == 0
    assert sum(one.note is not None for one in found) == sum(one.session.note is not None for one in found) > 0
    assert report(found, "a perfect reader").rows[-1][0] == "all"
