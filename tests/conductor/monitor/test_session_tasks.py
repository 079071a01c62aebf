"""S1, S2, S4 and S5: each note once an occasion, told from calls and times alone, and for clean runs none."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.monitor.state import CALLS
from tandem.conductor.monitor.written import writes
from tests.conductor.monitor.calling import declare
from tests.conductor.monitor.playing import AGENT, TOOLS, Play, profile

TASK = {"role": "user", "content": "Make the page pass its checks."}
CHECK = '{"command": "python check.py"}'
FAIL = "RESULT: FAIL <- page-check: contrast, overlap"
NIGHT = profile("overnight")


def night(**context: Any) -> Play:
    play = Play(AGENT, TASK, under=profile("overnight", **context))
    assert play.ask(0) == []
    return play


@pytest.mark.spec("MON-118", "MON-121", "MON-124", "MON-151", "MON-152")
def test_a_gate_that_fails_three_times_gets_a_note_until_it_is_better() -> None:
    play = night()
    play.calls("write", '{"path": "a.py", "content": "x"}')
    for minute in (1, 2):
        play.calls("bash", CHECK, FAIL)
        assert play.ask(minute) == []
    assert play.ask(2.5) == [], "the same request again counts nothing"
    play.calls("bash", CHECK, f"...\n{FAIL}")
    (event,) = play.events(3)
    assert (event.task, event.acted, event.reason) == ("S1", "PROMPT_TAIL_NOTE", "gate(page-check,fails=3)")
    assert event.text == (
        "Gate page-check has failed 3 times without a better value. Read its output again and take another approach."
    )
    play.calls("bash", CHECK, FAIL)
    assert play.ask(4) == [], "once"
    for minute, reasons in ((5, []), (6, []), (7, ["gate(page-check,fails=3)"])):
        play.calls("bash", CHECK, "RESULT: FAIL <- page-check: contrast (7 gates)")
        assert play.ask(minute) == reasons, "it was better, and then stood still again"
    play.calls("bash", CHECK, "RESULT: PASS <- page-check: (7 gates)")
    assert play.ask(8) == []
    for minute, reasons in ((9, []), (10, []), (11, ["gate(page-check,fails=3)"])):
        play.calls("bash", CHECK, FAIL)
        assert play.ask(minute) == reasons, "it passed, and fails anew"


@pytest.mark.spec("MON-118", "MON-120", "MON-149")
def test_thresholds_are_the_profiles_and_without_state_files_nothing_is_said() -> None:
    two = night(s1_runs=2, s4_minutes=5)
    two.calls("bash", CHECK, FAIL)
    assert two.ask(1) == []
    two.calls("bash", CHECK, FAIL)
    assert two.ask(2) == ["gate(page-check,fails=2)"]
    assert two.ask(6) == ["stalled(6 min)"]
    for head, under, tools in (
        ({"role": "system", "content": "You are an agent."}, NIGHT, TOOLS),
        (AGENT, NIGHT, []),
        (AGENT, profile("coding"), TOOLS),
    ):
        mute = Play(head, TASK, under=under)
        for minute in range(1, 60, 8):
            mute.calls("bash", CHECK, FAIL)
            reasons = mute.ask(minute, tools=tools)
            assert not [each for each in reasons if not each.startswith("first_write")]


@pytest.mark.spec("MON-121", "MON-122", "MON-124", "MON-151", "MON-152")
def test_behind_a_compaction_the_state_file_is_to_be_read() -> None:
    play = night()
    play.calls("read", '{"path": "/home/x/PROGRESS.yaml"}')
    play.messages[0] = {**AGENT, "content": f"{AGENT['content']} Today is 2026-12-01."}
    for step in range(6):
        play.calls("read", f'{{"path": "a{step}.py"}}')
        assert play.ask(1 + step / 10) == [], "a new date is no compaction"
    play.messages = [AGENT, {"role": "user", "content": "Summary: …"}, TASK]
    for step in range(5):
        assert play.ask(2 + step / 10, compacted=step < 3) == [], "one compaction, however long it is told of"
        play.calls("read", f'{{"path": "b{step}.py"}}')
    (event,) = play.events(2.6)
    assert (event.task, event.reason) == ("S2", "compaction(steps=5)")
    assert event.text == "The history was compacted. Read PROGRESS.yaml before you go on."
    play.calls("read", '{"path": "c.py"}')
    assert play.ask(2.7) == []
    play.messages = [AGENT, {"role": "user", "content": "Summary: … …"}, TASK]
    assert play.ask(2.8, compacted=True) == []
    play.calls("bash", '{"command": "head -40 ~/work/PROGRESS.yaml && ls"}')
    for step in range(6):
        play.calls("read", f'{{"path": "d{step}.py"}}')
        assert play.ask(2.9) == [], "it was read this time"


@pytest.mark.spec("MON-118", "MON-121", "MON-124", "MON-151", "MON-152")
def test_work_that_stands_still_is_noted_once_a_stall() -> None:
    play = night()
    play.calls("write", '{"path": "a.py", "content": "x"}')
    assert play.ask(2) == []
    play.calls("read", '{"path": "a.py"}')
    assert play.ask(17) == []
    play.calls("bash", CHECK, FAIL)
    (event, *rest) = play.events(22.5)
    assert (event.task, event.reason, rest) == ("S4", "stalled(20 min)", [])
    assert event.text == "No progress for 20 minutes. Name the blocker, then take the smallest next step."
    assert play.ask(23)[:1] == ["wrap_up(23 min)"], "what waited has its turn, and a stall is noted once"
    play.calls("bash", CHECK, "RESULT: FAIL <- page-check: contrast")
    assert play.ask(30) == []
    assert (play.state.progress.kind, play.state.progress.wrote) == ("better", True)
    assert play.ask(49.9) == []
    assert play.ask(50.1) == ["stalled(20 min)"], "a better number began another"
    play.says("assistant", "Done.")
    play.says("user", "And now the footer, please.")
    assert play.ask(300) == [], "nobody waited: the user was away"
    assert play.ask(302) == []


BOT: tuple[tuple[float, str, str, str, str], ...] = (
    # minute of the request with its result, tool, arguments, result, what the model said
    (0.4, "read", '{"path": "bot.py"}', "def reply(): ...", "I look at the bot first."),
    (1.6, "bash", '{"command": "python try_bot.py --level 3 2>/dev/null"}', "lost", "Now its games."),
    (3.1, "read", '{"path": "levels.json"}', "[…]", "And the levels it plays."),
    (4.0, "write", '{"path": "bot.py", "content": "…"}', "written", "Here is a first version."),
    (6.2, "bash", '{"command": "python try_bot.py"}', "won 3 of 20", "The bot loses most games because it waits."),
    (9.8, "edit", '{"path": "bot.py", "old_string": "3", "new_string": "4"}', "ok", "I let it wait a little less."),
    (14.5, "bash", '{"command": "python try_bot.py"}', "won 4 of 20", "Let me see."),
    (18.0, "edit", '{"path": "bot.py", "old_string": "4", "new_string": "5"}', "ok", "Let me see."),
    (23.3, "bash", '{"command": "python try_bot.py"}', "won 3 of 20", "The bot loses most games because it aims low."),
    (29.0, "edit", '{"path": "bot.py", "old_string": "5", "new_string": "6"}', "ok", "Let me see."),
    (36.0, "bash", '{"command": "python try_bot.py"}', "won 4 of 20", "The bot loses most games because it is late."),
    (43.0, "bash", '{"command": "python try_bot.py"}', "won 4", "The bot loses most games because it is one."),
)  # fmt: skip
FIX = (
    (0.3, "bash", '{"command": "pytest -q"}', "1 failed", "I run the tests first."),
    (0.9, "read", '{"path": "area.py"}', "…", "The failing one is about areas."),
    (1.8, "edit", '{"path": "area.py", "old_string": "+", "new_string": "*"}', "ok", "It adds and has to multiply."),
    (2.4, "bash", '{"command": "pytest -q"}', "12 passed", "Now the tests again."),
)  # fmt: skip
REFACTOR = (
    (1.0, "bash", '{"command": "grep -rn parse src"}', "…", "Let me see who calls it."),
    (2.0, "edit", '{"path": "a.py", "old_string": "a", "new_string": "b"}', "ok", "Let me rename it."),
    *((2.0 + step, "edit", f'{{"path": "f{step}.py", "old_string": "a", "new_string": "b"}}', "ok", "Let me go on.")
      for step in range(1, 14)),
)  # fmt: skip
DUPLICATES = (
    (2.9, "write", '{"path": "dups.py", "content": "…"}', "ok", "I write the finder in one go."),
    (4.0, "bash", '{"command": "python dups.py ."}', "3 pairs", "It runs."),
)
TESTED = (
    (1.5, "read", '{"path": "cart.py"}', "…", "The rounding is wrong."),
    (2.5, "write", '{"path": "test_cart.py", "content": "…"}', "ok", "First a test that fails."),
    (4.0, "edit", '{"path": "cart.py", "old_string": "int", "new_string": "round"}', "ok", "Now the fix."),
    (9.0, "bash", '{"command": "pytest"}', "9 passed", "And the tests."),
)


def played(run: Any) -> list[tuple[float, str]]:
    play = Play({"role": "system", "content": "You code."}, TASK, under=profile("coding"))
    found = [(0.0, reason) for reason in play.ask(0, cls="code_edit")]
    for minute, tool, arguments, result, said in run:
        play.calls(tool, arguments, result, said)
        found += [(minute, reason) for reason in play.ask(minute)]
    play.says("assistant", "It is done; this is what there is.")
    play.says("user", "Thanks. What does it do again?")
    return found + [(60.0, reason) for reason in play.ask(60)]


@pytest.mark.spec("MON-123", "MON-124", "MON-121", "MON-149", "MON-151")
def test_s5_replays() -> None:
    assert played(BOT) == [(3.1, "first_write(3 min)"), (18.0, "wrap_up(18 min)"), (36.0, "repeat(3)")]
    for clean in (FIX, REFACTOR, DUPLICATES, TESTED):
        assert played(clean) == []


@pytest.mark.spec("MON-119", "MON-121", "MON-124")
def test_one_note_a_request_and_in_shadow_the_prompt_stays() -> None:
    play = night()
    for _ in range(3):
        play.calls("bash", CHECK, FAIL)
    assert play.ask(21) == ["gate(page-check,fails=3)"]
    assert play.ask(21.1) == ["stalled(21 min)"]
    assert play.ask(21.2) == ["first_write(21 min)"]
    assert play.ask(21.3) == []
    shadow = Play({"role": "system", "content": "You code."}, TASK, under=profile("coding"), mode="shadow")
    assert shadow.ask(0) == []
    (event,) = shadow.events(4)
    assert (event.decision, event.acted, event.mode) == ("PROMPT_TAIL_NOTE", None, "shadow")
    assert event.text is not None


def test_no_note_goes_into_a_compaction() -> None:
    play = Play({"role": "user", "content": "Long history. " * 200}, under=profile("coding"))
    assert play.ask(0, tools=[], client_kind="opencode") == []
    assert play.state.progress.user_at is None


@pytest.mark.spec("MON-118")
def test_a_session_with_more_calls_than_are_kept_counts_none_twice() -> None:
    play = night()
    for step in range(CALLS + 10):
        play.calls("read", f'{{"path": "f{step}"}}')
    play.ask(1, compacted=True)
    steps, calls = play.state.progress.steps, play.state.calls
    assert (steps, len(calls)) == (CALLS + 10, CALLS)
    play.ask(1.1, compacted=True)
    assert play.state.progress.steps == steps
    assert play.state.calls == calls, "the oldest do not push out the newest"


@pytest.mark.parametrize(
    ("command", "is_write"),
    [
        ("cat > notes.md <<EOF", True),
        ('echo "x" >>"$HOME/a"', True),
        ("make | tee log.txt", True),
        ("sed -i s/a/b/ f.py", True),
        ("pytest -q 2>&1 | tail", False),
        ("ls 2>/dev/null >/dev/null", False),
        ('awk "$3 >= 4" f && test 1 -gt 0', False),
        ("grep -rn '=> x' src", False),
    ],
)
def test_what_a_shell_writes(command: str, is_write: bool) -> None:
    assert writes(TOOLS, "bash", {"command": command}) is is_write


def test_what_a_tool_writes() -> None:
    tools = [*TOOLS, declare("apply_patch", "input")]
    assert writes(tools, "apply_patch", {"input": "…"})
    assert writes(tools, "write", {})
    assert not writes(tools, "read", {"path": "a"})
    assert not writes(tools, "gone", {})
