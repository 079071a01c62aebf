"""SP3: an answer's calls are judged as one set, and a check that may not act never holds one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tandem.conductor.monitor.actions import Action
from tandem.engine.decoding.seams import NOTHING, EndNow
from tandem.engine.decoding.work import Force
from tandem.engine.text.reading.deltas import Finish, Timings, Usage
from tandem.engine.text.reading.trace import OpenBlock
from tests.conductor.monitor.scripted import TEXT, Scripted, call, rows, seen

AGAIN = Action(kind="REGENERATE_CALL", reason="risky", text="Not that one.")
MENDED = Action(kind="REPAIR_CALL", reason="mended", detail={"arguments": '{"a": 1}', "index": 1})
ENDED = Action(kind="GIVE_UP", reason="enough")
TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]
BLOCK = call(1, name="", arguments="", text="<tool_call>{", why="bad json", complete=False)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    return Scripted(monkeypatch)


def only(index: int, action: Action) -> Any:
    """An action about one item of the set."""
    return lambda event, task, view: action if event.index == index else None


def read(works: Any) -> str:
    [force] = works
    assert isinstance(force, Force)
    assert not force.visible
    return b"".join(map(TEXT.piece, force.ids)).decode()


@pytest.mark.spec("MON-076", "MON-083", "MON-146")
@pytest.mark.parametrize("journal", ["on", "off"])
def test_a_clean_set_goes_out_as_it_is_with_one_row(given: Scripted, journal: str) -> None:
    given.rule("a", "SP3", None)
    given.rule("b", "SP3", None)
    supervisor = given.begin(journal=journal, tools=TOOLS)
    assert supervisor.check_answer([call(0), call(1)], seen()) == NOTHING
    assert [(name, event.index) for name, event in given.looks] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [other.index for other in given.looks[0][1].others] == [0, 1], "each sees the whole set"
    assert given.looks[0][1].schema == {"type": "object"}
    found = supervisor.take_events()
    assert [(event.decision, event.detail) for event in found] == [("COUNTS", {"calls": 2})] * (journal == "on")


@pytest.mark.spec("MON-077", "MON-144")
def test_one_finding_holds_back_the_whole_set(given: Scripted) -> None:
    given.rule("a", "SP3", only(1, AGAIN))
    given.rule("mended", "SP3", only(0, MENDED))
    supervisor = given.begin(tools=TOOLS)
    verdict = supervisor.check_answer([call(0), call(1)], seen())
    assert verdict.drop
    assert verdict.release is None
    assert read(verdict.works).count("Not that one.") == 2, "as a result of each call"
    assert rows(supervisor) == [("a", "REGENERATE_CALL", "REGENERATE_CALL", "risky")]


@pytest.mark.spec("MON-039", "MON-077")
def test_one_rewrite_is_one_act_however_many_calls_it_found(given: Scripted) -> None:
    given.rule("a", "SP3", AGAIN)
    supervisor = given.begin(tools=TOOLS, caps=(1, 20))
    verdict = supervisor.check_answer([call(0), call(1)], seen())
    assert verdict.works
    events = supervisor.take_events()
    assert [event.acted for event in events] == ["REGENERATE_CALL", None]
    assert [event.hidden_tokens > 0 for event in events] == [True, False]
    assert supervisor.view.acts_of("a") == 1
    ended = supervisor.check_answer([call(0)], seen())
    assert ended.end is not None
    assert rows(supervisor) == [("a", "REGENERATE_CALL", "GIVE_UP", "cap(acts_per_request)")]


@pytest.mark.spec("MON-033", "MON-078")
@pytest.mark.parametrize("ended", ["length", "stop", "timeout"])
def test_without_the_models_own_end_there_is_no_rewrite(given: Scripted, ended: Any) -> None:
    given.rule("a", "SP3", AGAIN)
    supervisor = given.begin(tools=TOOLS)
    verdict = supervisor.check_answer([call(0)], seen(ended=ended))
    assert verdict.end is not None
    assert verdict.release is None
    assert rows(supervisor) == [("a", "REGENERATE_CALL", "GIVE_UP", f"ended({ended})")]


@pytest.mark.spec("MON-040", "MON-097")
def test_who_judges_order_lets_calls_go_at_a_cap(given: Scripted) -> None:
    given.rule("order", "SP3", AGAIN, lets_go=True)
    supervisor = given.begin(tools=TOOLS, caps=(0, 20))
    assert supervisor.check_answer([call(0)], seen()) == NOTHING
    assert rows(supervisor) == [("order", "PASS", None, "released(acts_per_request)")]


@pytest.mark.spec("MON-068")
def test_without_room_the_calls_go_as_they_are(given: Scripted) -> None:
    given.rule("a", "SP3", AGAIN)
    supervisor = given.begin(tools=TOOLS)
    assert supervisor.check_answer([call(0)], seen(room=1)) == NOTHING
    assert rows(supervisor) == [("a", "PASS", None, "no_room")]
    supervisor = given.begin(tools=TOOLS)
    assert supervisor.check_answer([call(0)], seen(left=0)) == NOTHING, "the only call ended at the limit itself"
    assert rows(supervisor) == [("a", "PASS", None, "no_room")]


@pytest.mark.spec("MON-144")
def test_repairs_replace_what_they_name_and_say_nothing_of_it(given: Scripted) -> None:
    made = [{"name": "ls", "arguments": "{}"}, {"name": "cd", "arguments": '{"b": 2}'}]
    given.rule("arguments", "SP3", only(0, MENDED))
    given.rule("blocks", "SP3", only(1, Action(kind="REPAIR_CALL", reason="tag", detail={"calls": made})))
    supervisor = given.begin(tools=TOOLS)
    verdict = supervisor.check_answer([call(0), replace(BLOCK, complete=True), call(2)], seen())
    assert verdict.release is not None
    assert [(item.index, item.name, item.arguments, item.why) for item in verdict.release] == [
        (0, "ls", '{"a": 1}', None),
        (1, "ls", "{}", None),
        (1, "cd", '{"b": 2}', None),
        (2, "ls", "{}", None),
    ]
    events = supervisor.take_events()
    assert [(event.acted, event.detail) for event in events] == [("REPAIR_CALL", {"index": 1}), ("REPAIR_CALL", {})]


@pytest.mark.spec("MON-079")
def test_a_block_that_a_stop_string_cut_is_text(given: Scripted) -> None:
    given.rule("a", "SP3", only(1, AGAIN))
    supervisor = given.begin(tools=TOOLS)
    assert supervisor.check_answer([call(0), BLOCK], seen(ended="stop")) == NOTHING
    assert rows(supervisor) == [("a", "PASS", None, "cut_by_stop")]


@pytest.mark.spec("MON-030", "MON-033")
def test_an_end_releases_nothing(given: Scripted) -> None:
    given.rule("a", "SP3", only(1, ENDED))
    given.rule("b", "SP3", AGAIN)
    supervisor = given.begin(tools=TOOLS)
    verdict = supervisor.check_answer([call(0), call(1)], seen())
    assert verdict.end is not None
    assert (verdict.works, verdict.release, verdict.end.detail) == ((), None, "monitor_a")


@pytest.mark.spec("MON-074")
def test_calls_are_held_for_who_can_act(given: Scripted) -> None:
    given.rule("a", "SP3", AGAIN, holds=lambda task, view: bool(view.req.tools))
    assert given.begin(tools=TOOLS).holds
    assert not given.begin().holds, "its precondition lacks"
    assert not given.begin("shadow", tools=TOOLS).holds
    assert not given.begin(tools=TOOLS, constrained=True).holds
    given.tasks[0]["mode"] = "shadow"
    assert not given.begin(tools=TOOLS).holds
    given.tasks[0]["mode"] = "act"
    given.rule("broken", "SP3", AGAIN, holds=lambda task, view: 1 / 0)
    given.tasks.reverse()
    assert given.begin(tools=TOOLS).holds


@pytest.mark.spec("MON-011", "MON-086")
@pytest.mark.parametrize("facts", [{"constrained": True}, {"mode": "shadow"}])
def test_what_is_not_held_is_judged_in_shadow(given: Scripted, facts: dict[str, Any]) -> None:
    given.rule("a", "SP3", AGAIN)
    supervisor = given.begin(tools=TOOLS, **facts)
    supervisor.trace.items = (call(0),)
    supervisor.finished(Finish("tool_calls", Usage(), Timings()), 1.0)
    first, last = supervisor.take_events()
    assert (first.decision, first.acted, first.mode) == ("REGENERATE_CALL", None, "shadow")
    assert last.decision == "OUTCOME"


def loops(given: Scripted, **facts: Any) -> Any:
    stopped = Action(kind="GIVE_UP", reason="tool_arg_loop", text="[Cut.]", detail={"stop_detail": "tool_arg_loop"})
    given.rule("A1", "SP3", stopped, open_blocks=True)
    given.rule("a", "SP3", None if not facts.pop("finds", False) else AGAIN, holds=lambda *_: facts["holds"])
    supervisor = given.begin(tools=TOOLS, live=facts.get("live", False))
    supervisor.trace.block = OpenBlock(pieces=["<tool_call>x"], ids=list(range(64)), tool="ls")
    verdict = supervisor.look("SP1", seen(in_call=True, held=(call(0),) if facts["holds"] else ()))
    assert given.looks[0][1].final is False
    assert given.looks[0][1].text == "<tool_call>x"
    return supervisor, verdict


@pytest.mark.spec("MON-107", "MON-109")
@pytest.mark.parametrize("finds", [False, True])
def test_a_held_block_is_dropped_and_the_calls_before_it_are_judged(given: Scripted, finds: bool) -> None:
    supervisor, verdict = loops(given, holds=True, finds=finds)
    assert verdict.end == EndNow("[Cut.]", "tool_arg_loop")
    assert verdict.release == (() if finds else (call(0),))
    assert rows(supervisor)[0] == ("A1", "GIVE_UP", "GIVE_UP", "tool_arg_loop")


@pytest.mark.spec("MON-108")
def test_a_block_that_streams_is_cut_without_a_word(given: Scripted) -> None:
    _, verdict = loops(given, holds=False, live=True)
    assert verdict.end == EndNow("", "tool_arg_loop", cut=True)
    assert verdict.works == ()


@pytest.mark.spec("MON-107")
def test_a_block_that_is_neither_held_nor_live_gets_the_sentence(given: Scripted) -> None:
    _, verdict = loops(given, holds=False)
    assert (verdict.end, verdict.release) == (EndNow("[Cut.]", "tool_arg_loop"), None)


@pytest.mark.spec("MON-076", "MON-144")
def test_what_a_repair_makes_readable_the_other_checks_see_too(given: Scripted) -> None:
    made = [{"name": "ls", "arguments": '{"path": "/"}'}]
    repair = Action(kind="REPAIR_CALL", reason="tag", detail={"calls": made})
    shown: list[str] = []

    def risky(event: Any, task: Any, view: Any) -> Action | None:
        shown.append(event.arguments)
        return AGAIN if event.arguments == made[0]["arguments"] else None

    given.rule("risky", "SP3", risky)
    given.rule("blocks", "SP3", only(1, repair))
    supervisor = given.begin(tools=TOOLS)
    verdict = supervisor.check_answer([call(0), replace(BLOCK, complete=True)], seen())
    assert verdict.drop
    assert shown == ["{}", "", "{}", made[0]["arguments"]]
    assert rows(supervisor) == [("risky", "REGENERATE_CALL", "REGENERATE_CALL", "risky")]


def test_of_two_tools_of_one_name_the_first_counts(given: Scripted) -> None:
    given.rule("a", "SP3", None)
    other = {"type": "function", "function": {"name": "ls", "parameters": {"type": "array"}}}
    given.begin(tools=[*TOOLS, other]).check_answer([call(0)], seen())
    assert given.looks[0][1].schema == {"type": "object"}
