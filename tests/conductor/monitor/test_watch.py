"""The watch: a client that is gone is reported once, and how a session stands is told in hashes and numbers alone."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.monitor.policy import Policy, policy_of, shipped_body
from tandem.conductor.monitor.watch import Sighting, sighting
from tests.conductor.monitor.calling import shipped
from tests.conductor.monitor.playing import AGENT, START, Play, profile

TASK = {"role": "user", "content": "Make the page pass its checks."}


def worked(under: str = "overnight", policy: Policy | None = None, mode: Any = "on", **context: Any) -> Play:
    """A session whose turn ended at minute 2."""
    play = Play(AGENT, TASK, under=profile(under, **context), policy=policy, mode=mode)
    play.calls("write", '{"path": "a.py", "content": "x"}')
    play.ask(0, ends=2)
    return play


def seen(play: Play, minutes: float) -> Sighting:
    return sighting(shipped(), play.state, START + 60 * minutes)


@pytest.mark.spec("MON-126", "MON-127", "MON-131", "MON-145", "SCH-099", "MON-027")
def test_a_client_that_is_gone_is_reported_once_a_stall() -> None:
    play = worked()
    assert play.sweep(21.9) == []
    (event,) = play.sweep(22.1)
    assert (event.task, event.sp, event.decision, event.acted) == ("S4", "watch", "NOTIFY", None)
    assert (event.reason, dict(event.detail)) == ("client_gone(20 min)", {"minutes": 20, "last": "write"})
    assert play.sweep(22.6) == play.sweep(900) == []
    play.ask(901, ends=902)
    assert play.sweep(921) == []
    (event,) = play.sweep(923)
    assert event.reason == "client_gone(21 min)"


@pytest.mark.spec("MON-127", "MON-131", "MON-120", "SCH-099")
def test_who_is_not_told() -> None:
    (event,) = worked(notify="off").sweep(30)
    assert (event.decision, event.detail["notify"]) == ("PASS", "off")
    (event,) = worked(mode="shadow").sweep(30)
    assert (event.decision, event.mode, event.detail["notify"]) == ("NOTIFY", "shadow", "not sent")
    assert worked("coding").sweep(30) == [], "S4 is off there"
    enabled = policy_of({**shipped_body(), "notify": {**shipped_body()["notify"], "enabled": True}})
    (event,) = worked(notify="off", policy=enabled).sweep(30)
    assert event.decision == "NOTIFY"
    assert worked(s4_minutes=60).sweep(61) == []
    none = policy_of({**shipped_body(), "tasks": []})
    assert worked(policy=none).sweep(30) == []
    chat = Play({"role": "system", "content": "You chat."}, TASK, under=profile("overnight"))
    chat.ask(0)
    assert chat.sweep(60) == [], "it keeps no state files"
    busy = worked()
    busy.ask(3, ends=2)
    assert busy.sweep(60) == [], "a request runs"


@pytest.mark.spec("MON-125", "MON-132")
def test_how_a_session_stands() -> None:
    play = worked()
    for _ in range(3):
        play.calls("bash", '{"command": "python check.py"}', "RESULT: FAIL <- page-check: contrast, overlap")
    play.ask(3)
    told = seen(play, 5)
    (gate,) = told.gates
    assert (gate.name, gate.verdict, gate.value, gate.best, gate.fails, gate.noted) == (
        "page-check",
        "FAIL",
        2,
        2,
        3,
        True,
    )
    assert (told.progress.kind, told.progress.age_s) == ("write", 300)
    assert (told.client.idle_s, told.client.gone, told.push) == (120, False, True)
    assert (told.compaction.watching, told.compaction.steps) == (False, 0)
    play.messages = [AGENT, TASK]
    play.ask(6, compacted=True)
    play.calls("read", '{"path": "a.py"}')
    play.ask(7)
    compaction = seen(play, 7).compaction
    assert (compaction.watching, compaction.steps, compaction.noted) == (True, 1, False)
    play.calls("read", '{"path": "docs/PROGRESS.yaml"}')
    play.ask(8)
    assert not seen(play, 8).compaction.watching
    play.sweep(60)
    told = seen(play, 60)
    assert (told.client.gone, told.push) == (True, False)
    assert "page pass" not in repr(play.state)
    assert "a.py" not in repr(play.state)
