"""When a stream is looked at, and when it is told something."""

from __future__ import annotations

import pytest

from tandem.http.entry import Limits
from tandem.http.events import Output, Prefilling, Waiting
from tandem.http.pacing import Pacing


def pacing(*, stream: bool = True, looks: bool = True) -> Pacing:
    return Pacing(100.0, Limits(request_timeout=1000, prefill_heartbeat=5, looks=looks), stream=stream)


@pytest.mark.spec("STA-025", "SCH-026")
def test_a_wait_with_lines_is_looked_at_every_second_and_commented_every_ten() -> None:
    each, now, due = pacing(), 100.0, []
    while now < 121:
        now = each.wakes_at
        due.append((now - 100, each.woken(now)))
    assert [at for at, _ in due[:4]] == [2, 3, 4, 5]
    assert [at for at, is_due in due if is_due] == [10, 20]
    assert pacing(looks=False).wakes_at == 110
    assert pacing(stream=False).wakes_at == float("inf")


@pytest.mark.spec("SCH-115", "SCH-029", "API-141")
def test_what_may_be_left_unsaid_breaks_no_silence() -> None:
    each = pacing()
    each.told(Waiting(position=1, waited_s=5, is_due=False), 105.0)
    each.told(Prefilling(1, 9, None, is_due=False), 106.0)
    assert each.silent_at(waits=False) == 110
    assert each.silent_at(waits=True) == 102
    assert not each.silent(104.0)
    assert each.silent_at(waits=True) == 105
    assert each.silent(110.0)
    each.told(Output([]), 110.0)
    assert each.silent_at(waits=False) == 120
    each.running_since = 110.0
    assert [each.is_heartbeat_due(at) for at in (114.0, 115.0)] == [False, True]
    each.told(Prefilling(1, 9, None), 115.0)
    assert not each.is_heartbeat_due(115.5)
