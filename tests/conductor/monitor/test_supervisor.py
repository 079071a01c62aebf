"""The supervisor: who is asked when, what is done of it, and that nothing in it can hurt a request."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.documents import Profile
from tandem.conductor.monitor.actions import PERMITTED, Action, Inquiry
from tandem.conductor.monitor.state import Monitored
from tandem.conductor.router.notes import text_hash
from tandem.engine.decoding.seams import NOTHING, Close
from tandem.engine.decoding.work import Answer, Ask, Force
from tandem.engine.text.closing import hidden_closing
from tandem.engine.text.reading.deltas import Finish, Timings, Usage
from tests.conductor.monitor.scripted import TEXT, Scripted, rows, seen

_IDS, _SHOWN = hidden_closing(TEXT)
CLOSER = Force(_IDS, visible=False, closes=True, shown=_SHOWN)

CLOSE = Action(kind="CLOSE_REASONING", reason="why")
GO_ON = Action(kind="CONTINUE_HIDDEN", reason="empty", text="Go on.")
NOTE = Action(kind="PROMPT_TAIL_NOTE", reason="due", text="Mind it.")
END = Action(kind="GIVE_UP", reason="enough", text="[Over.]")
INSIDE = {"in_reasoning": True}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    return Scripted(monkeypatch)


def thinks(supervisor: Any, tokens: int, **facts: Any) -> Any:
    """The look behind a round after which the reasoning has so many tokens."""
    supervisor.trace.reasoning[:] = range(tokens)
    return supervisor.look("SP1", seen(in_reasoning=True, reasoning_tokens=tokens, **facts))


@pytest.mark.spec("MON-016", "MON-031", "MON-045", "OBS-017")
def test_the_first_task_that_may_act_does(given: Scripted) -> None:
    given.rule("a", "SP1", None)
    given.rule("b", "SP1", CLOSE)
    given.rule("c", "SP1", CLOSE)
    supervisor = given.begin()
    assert thinks(supervisor, 63) == NOTHING
    assert given.looks == [], "nobody is asked between two marks"
    verdict = thinks(supervisor, 66)
    assert verdict.works == (CLOSER,)
    assert [name for name, _ in given.looks] == ["a", "b"]
    [event] = supervisor.take_events()
    assert (event.task, event.acted, event.position, event.reasoning_cut) == ("b", "CLOSE_REASONING", 100, 66)
    assert event.hidden_tokens == len(CLOSER.ids)
    assert supervisor.take_events() == []


@pytest.mark.spec("MON-003", "MON-004", "MON-005", "MON-043")
@pytest.mark.parametrize(
    ("mode", "task", "wanted"), [("shadow", "act", None), ("on", "shadow", None), ("on", "act", "shadow")]
)
def test_in_shadow_it_is_only_journaled(given: Scripted, mode: str, task: str, wanted: str | None) -> None:
    detail = {} if wanted is None else {"mode": wanted}
    given.rule("a", "SP1", Action(kind="CLOSE_REASONING", reason="why", detail=detail), task={"mode": task})
    given.rule("off", "SP1", CLOSE, task={"mode": "off"})
    supervisor = given.begin(mode, caps=(0, 20))
    assert [thinks(supervisor, tokens) for tokens in (64, 128, 192)] == [NOTHING] * 3
    [event] = supervisor.take_events()
    assert (event.mode, event.decision, event.acted) == ("shadow", "CLOSE_REASONING", None)
    assert event.detail["would_cap"] == "acts_per_request"
    assert {name for name, _ in given.looks} == {"a"}, "a task that is off is not asked"


@pytest.mark.spec("MON-026")
@pytest.mark.parametrize("kind", sorted({"CONTINUE_HIDDEN", "NOTIFY", "REPAIR_CALL", "PROMPT_TAIL_NOTE"}))
def test_what_the_point_does_not_permit_becomes_a_pass(given: Scripted, kind: Any) -> None:
    assert kind not in PERMITTED["SP1"]
    given.rule("a", "SP1", Action(kind=kind, reason="why"))
    supervisor = given.begin()
    assert thinks(supervisor, 64) == NOTHING
    assert rows(supervisor) == [("a", "PASS", None, "bad_action")]


@pytest.mark.spec("MON-012")
@pytest.mark.parametrize("answer", [ValueError("secret"), "no action"])
def test_a_fault_in_a_rule_changes_nothing(given: Scripted, answer: Any) -> None:
    reason = f"error({'TypeError' if answer == 'no action' else 'ValueError'})"
    given.rule("a", "SP1", answer)
    given.rule("b", "SP1", CLOSE)
    given.rule("c", "SP2", answer)
    given.rule("d", "SP4", answer)
    supervisor = given.begin()
    assert supervisor.request() == []
    assert thinks(supervisor, 64).works
    assert supervisor.look("SP2", seen()) == NOTHING
    assert rows(supervisor) == [
        ("d", "PASS", None, reason),
        ("a", "PASS", None, reason),
        ("b", "CLOSE_REASONING", "CLOSE_REASONING", "why"),
        ("c", "PASS", None, reason),
    ]


@pytest.mark.spec("MON-012")
def test_nor_does_a_fault_of_its_own(given: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    given.rule("a", "SP1", CLOSE)
    supervisor = given.begin()
    monkeypatch.setattr("tandem.conductor.monitor.supervisor.act", lambda *_: 1 / 0)
    assert thinks(supervisor, 64) == NOTHING
    assert rows(supervisor) == [("monitor", "PASS", None, "error(ZeroDivisionError)")]


@pytest.mark.spec("MON-039", "MON-040")
@pytest.mark.parametrize(
    ("caps", "before", "name"),
    [((1, 20), (), "acts_per_request"), ((4, 3), (7_000.0, 9_000.0), "acts_per_session_hour")],
)
def test_beyond_a_cap_the_turn_ends(
    given: Scripted, caps: tuple[int, int], before: tuple[float, ...], name: str
) -> None:
    given.rule("a", "SP2", Action(kind="CONTINUE_HIDDEN", text="One."), Action(kind="CONTINUE_HIDDEN", text="Two."))
    supervisor = given.begin(caps=caps, session=Monitored(acts=(1.0, *before)))
    assert supervisor.look("SP2", seen()).works
    verdict = supervisor.look("SP2", seen())
    assert verdict.end is not None
    assert verdict.end.sentence.startswith("[TandemLLM")
    *_, event = supervisor.take_events()
    assert (event.decision, event.acted, event.reason) == ("CONTINUE_HIDDEN", "GIVE_UP", f"cap({name})")


@pytest.mark.spec("MON-041")
def test_the_same_hidden_text_does_not_come_twice_in_a_row(given: Scripted) -> None:
    given.rule("a", "SP2", GO_ON, Action(kind="CONTINUE_HIDDEN", text="Else."), GO_ON)
    supervisor = given.begin(caps=(9, 20))
    looks = [supervisor.look("SP2", seen()) for _ in range(4)]
    assert [bool(look.works) for look in looks] == [True, True, True, False]
    assert looks[-1].end is not None
    assert rows(supervisor)[-1] == ("a", "CONTINUE_HIDDEN", "GIVE_UP", "repeated")


@pytest.mark.spec("MON-029", "MON-032", "MON-054")
def test_where_the_answer_goes_on_depends_on_the_block(given: Scripted) -> None:
    forwarded = Action(kind="CONTINUE_HIDDEN", text="", ids=(1, 2))
    given.rule("a", "SP2", Action(kind="CONTINUE_HIDDEN"), GO_ON, forwarded, forwarded)
    supervisor = given.begin(caps=(9, 20))
    [closer] = supervisor.look("SP2", seen(**INSIDE)).works
    assert closer == CLOSER
    [behind] = supervisor.look("SP2", seen()).works
    assert isinstance(behind, Force)
    assert not behind.visible
    assert not behind.closes
    assert "Go on." in b"".join(map(TEXT.piece, behind.ids)).decode()
    [tag, calls] = supervisor.look("SP2", seen(**INSIDE)).works
    assert (tag.closes, calls) == (True, Force((1, 2), visible=True))  # type: ignore[union-attr]


@pytest.mark.spec("MON-068")
def test_without_room_the_answer_stays_as_it_is(given: Scripted) -> None:
    given.rule("a", "SP2", GO_ON)
    supervisor = given.begin()
    supervisor.trace.answer.append("Said.")
    assert supervisor.look("SP2", seen(room=3)) == NOTHING
    assert rows(supervisor) == [("a", "PASS", None, "no_room")]


def inquiry(then: Any) -> Inquiry:
    return Inquiry(text="Done?", options=("yes", "no"), then=then)


@pytest.mark.spec("MON-062", "MON-063", "MON-067")
@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_a_rule_may_ask_twice_and_then_act(given: Scripted, mode: str) -> None:
    def second(read: Any, why: str) -> Any:
        assert (read, why) == ((0.9, 0.1), "")
        return inquiry(lambda read, _: Action(kind="CONTINUE_HIDDEN", reason="no", text="Go on.", score=read[1]))

    given.rule("a", "SP2", inquiry(second), task={"tier": 1})
    given.rule("b", "SP2", None)
    supervisor = given.begin(mode)
    [first] = supervisor.look("SP2", seen()).works
    assert isinstance(first, Ask)
    assert len(first.options) == 2
    [again] = supervisor.answered(Answer((0.9, 0.1)), seen()).works
    assert isinstance(again, Ask)
    verdict = supervisor.answered(Answer((0.2, 0.8)), seen())
    assert bool(verdict.works) == (mode == "on")
    [event] = supervisor.take_events()
    assert (event.score, event.tier) == (0.8, 1)
    assert (event.detail["questions"], event.detail["question_failures"]) == (2, 0)
    assert ("b" in [name for name, _ in given.looks]) == (mode == "shadow"), "the next task is asked where none acts"


@pytest.mark.spec("MON-040", "MON-068", "MON-069")
@pytest.mark.parametrize(
    ("facts", "caps", "req", "why"),
    [
        ({"room": 2}, (4, 20), {}, "no_room"),
        ({}, (0, 20), {}, "cap(acts_per_request)"),
        ({}, (4, 20), {"logprobs": True}, "logprobs"),
    ],
)
def test_a_question_that_cannot_be_put(
    given: Scripted, facts: dict[str, Any], caps: tuple[int, int], req: dict[str, Any], why: str
) -> None:
    given.rule("a", "SP2", inquiry(lambda read, why: Action(kind="PASS", reason=f"{read} {why}")), task={"tier": 1})
    supervisor = given.begin(caps=caps, **req)
    assert supervisor.look("SP2", seen(**facts)) == NOTHING
    assert rows(supervisor) == [("a", "PASS", None, f"None {why}")]


@pytest.mark.spec("MON-034", "MON-040", "MON-119")
def test_of_several_notes_the_first_is_given(given: Scripted) -> None:
    late = Action(kind="PROMPT_TAIL_NOTE", reason="late", text="Later.", delta={"noted": True})
    given.rule("shadowed", "SP4", NOTE, task={"mode": "shadow"})
    given.rule("a", "SP4", Action(kind="PROMPT_TAIL_NOTE", reason="due", text="Mind it.", delta={"noted": True}))
    given.rule("b", "SP4", late)
    given.rule("c", "SP4", Action(kind="SET_THINK_BUDGET", reason="less", budget=0))
    supervisor = given.begin(profile=Profile(mode="on"))
    note, budget = supervisor.request()
    assert (note.text, budget.budget) == ("Mind it.", 0)
    assert rows(supervisor) == [
        ("shadowed", "PROMPT_TAIL_NOTE", None, "due"),
        ("a", "PROMPT_TAIL_NOTE", "PROMPT_TAIL_NOTE", "due"),
        ("c", "SET_THINK_BUDGET", "SET_THINK_BUDGET", "less"),
    ]
    delta = supervisor.take_delta()
    assert delta is not None
    assert delta.kept == {"a": {"noted": True}}, "what waits remembers nothing"


ASSISTANT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so"}]


@pytest.mark.spec("MON-034", "MON-040")
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"caps": (0, 20)}, "note.cap"),
        ({"messages": ASSISTANT}, "note.assistant"),
        ({"window": 101, "prompt_tokens": 100}, "note.window"),
        ({"profile": None}, "note.no_plan"),
        ({"has_place": False}, "note.no_place"),
        ({"note_room": 1}, "note.window"),
        ({"noted": frozenset({text_hash("Mind it.")})}, "note.there"),
    ],
)
def test_a_note_that_is_left_out_leaves_its_budget(given: Scripted, facts: dict[str, Any], reason: str) -> None:
    given.rule("a", "SP4", Action(kind="PROMPT_TAIL_NOTE", reason="due", text="Mind it.", budget=64))
    supervisor = given.begin(**{"profile": Profile(mode="on"), **facts})
    [budget] = supervisor.request()
    assert (budget.kind, budget.budget) == ("SET_THINK_BUDGET", 64)
    assert rows(supervisor) == [("a", "PROMPT_TAIL_NOTE", None, reason)]


@pytest.mark.spec("MON-040")
def test_a_note_that_is_given_has_its_budget_too(given: Scripted) -> None:
    given.rule("a", "SP4", Action(kind="PROMPT_TAIL_NOTE", reason="due", text="Mind it.", budget=64))
    note, budget = given.begin(profile=Profile(mode="on")).request()
    assert (note.kind, budget.kind, budget.budget, budget.text) == ("PROMPT_TAIL_NOTE", "SET_THINK_BUDGET", 64, None)


@pytest.mark.spec("MON-030", "MON-037")
def test_a_budgets_text_must_close_the_block(given: Scripted) -> None:
    given.rule("a", "SP4", Action(kind="SET_THINK_BUDGET", budget=9, text="stop"))
    given.rule("b", "SP4", Action(kind="SET_THINK_BUDGET", budget=9, text="stop</think>"))
    supervisor = given.begin()
    assert [act.text for act in supervisor.request()] == ["stop</think>"]
    assert rows(supervisor)[0] == ("a", "PASS", None, "bad_text")
    with pytest.raises(ValueError, match="no action"):
        Action(kind="SHOUT")  # type: ignore[arg-type]


@pytest.mark.spec("MON-042")
def test_a_routers_note_counts_as_an_act(given: Scripted) -> None:
    supervisor = given.begin(caps=(1, 20))
    assert supervisor.adopt(NOTE, "outcome")
    assert not supervisor.adopt(NOTE, "outcome")
    assert rows(supervisor) == [
        ("outcome", "PROMPT_TAIL_NOTE", "PROMPT_TAIL_NOTE", "due"),
        ("outcome", "PROMPT_TAIL_NOTE", None, "note.cap"),
    ]
    shadow = given.begin("shadow", caps=(0, 20))
    assert shadow.adopt(NOTE, "outcome"), "in shadow it has no say"
    [event] = shadow.take_events()
    assert (event.acted, event.detail["would_cap"]) == (None, "acts_per_request")


@pytest.mark.spec("MON-038", "MON-039")
def test_caps_of_others_are_journaled_and_no_acts(given: Scripted) -> None:
    supervisor = given.begin(caps=(1, 20))
    for why in ("route", "client", "reserve"):
        supervisor.closed(Close(64, why, 5, seen(reasoning_tokens=64)))
    given.rule("a", "SP2", GO_ON)
    assert rows(supervisor) == [
        (why, "CLOSE_REASONING", "CLOSE_REASONING", "budget(64)") for why in ("route", "client", "reserve")
    ]
    assert supervisor.adopt(NOTE, "x"), "the only act is still to be had"


@pytest.mark.spec("MON-038", "MON-040", "MON-045", "MON-155")
def test_a_tasks_own_cap_is_an_act(given: Scripted) -> None:
    """D2's: beyond the caps on acts the turn ends."""
    given.tasks.append({"id": "D2", "rule": "reasoning_backstop", "max_tokens": 64})
    supervisor = given.begin(caps=(1, 20))
    assert supervisor.backstop == 64
    assert thinks(supervisor, 64) == NOTHING, "the decode loop closes it"
    for _ in range(2):
        supervisor.closed(Close(64, "D2", 5, seen(reasoning_tokens=64)))
    first, second = supervisor.take_events()
    assert (first.acted, first.reason, first.reasoning_cut) == ("CLOSE_REASONING", "backstop(64)", 64)
    assert (second.acted, second.reason, second.hidden_tokens) == ("GIVE_UP", "cap(acts_per_request)", 5)
    for point in ("SP1", "SP2"):
        end = supervisor.look(point, seen()).end
        assert end is not None
        assert end.sentence.startswith("[TandemLLM")
    assert given.begin("shadow").backstop is None


@pytest.mark.spec("MON-030", "MON-033")
def test_an_end_before_anything_is_read_is_all_that_is_done(given: Scripted) -> None:
    given.rule("a", "SP4", NOTE)
    given.rule("b", "SP4", END)
    given.rule("c", "SP4", Action(kind="SET_THINK_BUDGET", budget=0))
    supervisor = given.begin(profile=Profile(mode="on"))
    [act] = supervisor.request()
    assert (act.kind, act.text) == ("GIVE_UP", "[Over.]")
    assert rows(supervisor) == [("a", "PASS", None, "ended"), ("b", "GIVE_UP", "GIVE_UP", "enough")]
    assert [name for name, _ in given.looks] == ["a", "b"]


def finish() -> Finish:
    usage = Usage(prompt=1, completion=1, reasoning=0, cached=0)
    return Finish("stop", usage, Timings())


@pytest.mark.spec("MON-047", "MON-125")
@pytest.mark.parametrize("role", ["user", "tool"])
def test_the_reasoning_since_the_last_user_message_is_kept_as_hashes(given: Scripted, role: str) -> None:
    supervisor = given.begin(messages=[{"role": role, "content": "x"}], session=Monitored(reasoning=frozenset({7})))
    supervisor.trace.reasoning[:] = range(500)
    supervisor.finished(finish(), 1.0)
    delta = supervisor.take_delta()
    assert delta is not None
    assert delta.reasoning is not None
    assert (7 in delta.reasoning) == (role == "tool")
    assert len(delta.reasoning) > 1


@pytest.mark.spec("MON-125", "MON-142", "MON-146", "MON-027")
def test_what_the_session_is_to_remember(given: Scripted) -> None:
    given.rule("a", "SP1", Action(kind="PASS", delta={"count": 1}), Action(kind="PASS", reason="seen", delta={"x": 2}))
    supervisor = given.begin()
    thinks(supervisor, 64)
    thinks(supervisor, 128)
    first = supervisor.take_delta()
    assert first is not None
    assert (first.asked_at, first.kept) == (10_000.0, {"a": {"count": 1, "x": 2}})
    assert supervisor.take_delta() is None
    supervisor.adopt(NOTE, "outcome")
    supervisor.finished(finish(), 10_007.0)
    last = supervisor.take_delta()
    assert last is not None
    assert (last.acts, last.ended_at) == ((10_007.0,), 10_007.0)
    assert last.reasoning
    *_, event = supervisor.take_events()
    assert (event.decision, event.detail["acts"]) == ("OUTCOME", 1)
    assert (event.sp, event.acted) == ("label", None)
