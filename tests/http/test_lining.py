"""What one request's lines are collected from, and what of them is journaled."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tandem.conductor.documents.profiles import ProfileUi, Progress
from tandem.conductor.monitor.events import MonitorEvent
from tandem.http.events import Prefilling, Waiting
from tandem.http.lining import Lining
from tandem.http.openai.lines import LineWay

ACT = MonitorEvent(
    task="E1", rule="r", tier=0, sp="SP2", mode="act", decision="CONTINUE_HIDDEN", acted="CONTINUE_HIDDEN", reason=""
)
CONTENT = LineWay("content", "reasoning_content")


def lining(way: LineWay = CONTENT, *, stream: bool = True, **ui: Any) -> Lining:
    return Lining(way, ProfileUi(states="on", **ui), stream=stream, arrived_at=trio.current_time())


@pytest.mark.spec("STA-006", "STA-004")
async def test_an_act_is_said_once_and_journaled(autojump_clock: trio.testing.MockClock) -> None:
    each = lining()
    await trio.sleep(1.5)
    each.acted(ACT)
    assert [line.kind for line in each.pending()] == ["continue"]
    assert each.pending() == []
    assert each.newest == "the turn goes on: there was no answer yet"
    assert each.said == [{"kind": "continue", "text": each.newest, "ms": 1500, "summary": ""}]
    muted = lining(kinds={"continue": "off"})
    muted.acted(ACT)
    assert (muted.pending(), muted.said, muted.newest) == ([], [], None)


@pytest.mark.spec("STA-024", "STA-029")
async def test_what_is_read_for_a_question_is_not_told(autojump_clock: trio.testing.MockClock) -> None:
    each = lining()
    ahead = [each.look(Prefilling(done, 90_000, None, for_turn=False), done / 100) for done in (1_000, 2_000, 3_000)]
    turn = [each.look(Prefilling(done, 90_000, None), done / 100) for done in (4_000, 5_000)]
    assert [len(lines) for lines in (*ahead, *turn)] == [0, 0, 0, 0, 1]


@pytest.mark.spec("STA-004", "STA-023", "STA-027")
async def test_who_is_looked_at(autojump_clock: trio.testing.MockClock) -> None:
    wait = Waiting(position=1, waited_s=5, estimate_s=44)
    assert [line.text for line in lining().look(wait, 5.0)] == [
        "in line at 1: another request is running, about 40 s expected"
    ]
    off: dict[str, Any] = {"queue": "off", "prefill": "off", "thinking": "off"}
    silent = [
        lining(stream=False),
        lining(progress=Progress(mode="off")),
        lining(kinds=off),
        lining(LineWay("content", "tags", is_plain=True)),
    ]
    for each in silent:
        assert not each.looks
        assert [*each.look(wait, 5.0), *each.look(Prefilling(1, 9, None), 5.0)] == []
    partly = lining(kinds={"queue": "off"})
    assert partly.looks
    assert list(partly.look(wait, 5.0)) == []  # with an estimate too
    unknown = lining(LineWay("reasoning", "tags"))
    assert unknown.looks  # for the thinking lines
    assert list(unknown.look(wait, 5.0)) == []
