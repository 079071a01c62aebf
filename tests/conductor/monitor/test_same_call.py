"""C3: the same call is held back, a circle too; a poll never is; numbers alone earn a note."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.rules.same_call import near_calls
from tandem.conductor.monitor.state import CallRecord, Monitored
from tests.conductor.monitor.calling import (
    USER,
    answer,
    called,
    checked,
    declare,
    holding,
    round_of,
    shipped_task,
    view,
)

TASK = shipped_task("C3")
TOOLS = [declare("read", "path"), declare("list", "path"), declare("bash", "command")]
READ, LIST = ("read", '{"path": "a"}', "X"), ("list", '{"path": "."}', "a b")


def found(messages: Any, call: tuple[str, Any], **about: Any) -> Action | None:
    seen = view(messages, TOOLS, **about)
    (action,) = checked(TASK, seen, answer(seen, call))
    assert action is None or holding(TASK, seen)
    return action


@pytest.mark.spec("MON-087", "MON-091", "MON-152")
def test_the_third_equal_call_is_written_again() -> None:
    action = found([USER, *called(READ, READ)], ("read", '{ "path":"a"}'))
    assert action is not None
    assert (action.kind, action.reason) == ("REGENERATE_CALL", "repeat(3)")
    assert action.text == (
        "This read call would be number 3 with equal arguments and an equal result. "
        "Use what you know and do something else."
    )
    assert {name: action.detail[name] for name in ("tool", "index", "run", "period", "wait_s")} == {
        "tool": "read",
        "index": 0,
        "run": 3,
        "period": 1,
        "wait_s": None,
    }
    assert len(action.detail["hashes"]) == len(action.detail["results"]) == 1
    assert '"a"' not in repr(action.detail)


@pytest.mark.spec("MON-157")
def test_a_circle_is_too() -> None:
    action = found([USER, *called(READ, LIST, READ)], ("list", {"path": "."}))
    assert action is not None
    assert action.reason == "cycle(2)"
    assert action.text == (
        "These calls go in a circle with equal results: list, read. Use what you know and do something else."
    )
    assert action.detail["run"] == 4
    assert found([USER, *called(READ, LIST, READ)], ("list", {"path": "b"})) is None


@pytest.mark.spec("MON-087", "MON-088", "MON-090")
@pytest.mark.parametrize(
    "messages",
    [
        [USER, *called(READ)],
        [USER, *called(READ, READ), USER],
        [USER, *called(READ, READ, ("edit", "{}", "ok"))],
        [USER, *called(READ, (*READ[:2], "Y"))],
        [],
    ],
)
def test_nothing_is_held_where_no_run_waits_for_its_last(messages: Any) -> None:
    seen = view(messages, TOOLS)
    assert not holding(TASK, seen)
    assert checked(TASK, seen, answer(seen, ("read", {"path": "a"}))) == [None]


@pytest.mark.spec("MON-088")
def test_a_test_that_runs_again_behind_an_edit_is_fine() -> None:
    test, edit = ("bash", '{"command": "pytest"}', "1 failed"), ("edit", '{"at": 1}', "ok")
    seen = view([USER, *called(test, edit, test, (edit[0], '{"at": 2}', "ok"))], TOOLS)
    assert not holding(TASK, seen)
    assert checked(TASK, seen, answer(seen, ("bash", {"command": "pytest"}))) == [None]


@pytest.mark.spec("MON-087")
def test_only_the_first_call_of_an_answer_completes_a_run() -> None:
    seen = view([USER, *called(READ, READ)], TOOLS)
    other, same = ("bash", {"command": "ls"}), ("read", {"path": "a"})
    assert [bool(each) for each in checked(TASK, seen, answer(seen, same, same))] == [True, False]
    assert checked(TASK, seen, answer(seen, other, same)) == [None, None]
    once = view([USER, *called(READ)], TOOLS)
    assert checked(TASK, once, answer(once, same, same)) == [None, None]


@pytest.mark.spec("MON-089")
def test_a_poll_is_exempt() -> None:
    messages = [USER, *called(READ, READ)]
    record = CallRecord(id="k0-0", tool="read", arguments="", near="", result="", issued_at=1.0, returned_at=2.0)
    quick = Monitored(calls=(record,), ended_at=995.0)
    action = found(messages, ("read", {"path": "a"}), session=quick)
    assert action is not None
    assert action.detail["wait_s"] == 5.0
    slow = Monitored(calls=(record,), ended_at=990.0)
    assert found(messages, ("read", {"path": "a"}), session=slow) is None


@pytest.mark.spec("MON-010", "MON-087")
def test_thresholds_are_the_policys() -> None:
    seen = view([USER, *called(READ)], TOOLS)
    events = answer(seen, ("read", {"path": "a"}))
    assert checked(shipped_task("C3", repeats=2), seen, events)[0] is not None
    seen = view([USER, *called(READ, LIST, READ)], TOOLS)
    assert checked(shipped_task("C3", cycle=1), seen, answer(seen, ("list", {"path": "."}))) == [None]


def slept(*seconds: int) -> list[tuple[str, str, str]]:
    return [("bash", f'{{"command": "sleep {each}"}}', "running") for each in seconds]


def near(messages: Any, **about: Any) -> Action | None:
    seen = view(messages, TOOLS, **about)
    found = near_calls(seen.req, TASK, seen)
    assert found is None or isinstance(found, Action)
    return found


@pytest.mark.spec("MON-158", "MON-152")
def test_calls_that_differ_in_numbers_earn_one_note_and_are_not_held() -> None:
    assert near([USER, *called(*slept(1, 2))]) is None
    action = near([USER, *called(*slept(1, 2, 3))])
    assert action is not None
    assert (action.kind, action.reason) == ("PROMPT_TAIL_NOTE", "near(3)")
    assert action.text == "Repeating bash brought nothing new. Pick another call or other arguments."
    assert near([USER, *called(*slept(1, 2, 3, 4))]) is None
    assert near([USER, *called(*slept(1, 2, 3)), USER]) is None
    assert near([USER, *called(*slept(7, 7, 7))]) is None
    seen = view([USER, *called(*slept(1, 2, 3))], TOOLS)
    assert not holding(TASK, seen)
    # The request comes again as it was: so does its note, or its prompt would be another.
    assert near([USER, *called(*slept(1, 2, 3))]) == action


@pytest.mark.spec("MON-158")
def test_calls_of_one_answer_make_a_run_at_once() -> None:
    action = near([USER, *called(*slept(1)), *round_of(*slept(2, 3, 4))])
    assert action is not None
    assert action.reason == "near(4)"
    other = [("read", f'{{"path": "{number}"}}', "none") for number in (1, 2, 3)]
    assert near([USER, *called(*slept(1, 2, 3)), *round_of(*other)]) is not None


@pytest.mark.spec("MON-158")
def test_never_beside_the_routers_note() -> None:
    action = near([USER, *called(*slept(1, 2, 3))], escape_noted=True)
    assert action is not None
    assert (action.kind, action.reason, action.text) == ("PASS", "near(3)", None)
