"""Whole plans: what each mode, profile and kind of turn decides, applies and writes down."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest

from tandem.conductor.documents import ClassRouting, SideShape
from tandem.conductor.router.facts import AskedThinking, Facts
from tandem.conductor.router.modelfit import ModelFit
from tandem.conductor.router.plan import Answer, PlanRefused, Question
from tandem.conductor.router.planner import Planner
from tandem.conductor.router.prepare import prepare
from tandem.conductor.router.rows import with_notes
from tandem.engine.text.model import Conversation
from tests.conductor.documents.samples import documents
from tests.conductor.router.driving import (
    DAY,
    Desk,
    Served,
    assistant,
    surely,
    system,
    tool,
    user,
    with_document,
    with_profile,
)

TITLE = user("### Task:\nGenerate a concise title with an emoji.")
HISTORY = user("A long history. " * 200)
SUMMARY = "The user wants a game of chess in the browser and has seen a first one. " * 4
BASH: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Runs a command. The current working directory is: /work",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


def parts(served: Served) -> list[str]:
    """Names of the new note's parts."""
    note = served.plan.effects.note
    return [part.name for part in note.parts] if note is not None else []


def moved_to(path: str) -> dict[str, Any]:
    return {**BASH, "function": {**BASH["function"], "description": f"Runs. The current working directory is: {path}"}}


# Modes and profiles


@pytest.mark.spec("PRF-009", "NOTE-001")
@pytest.mark.parametrize("headers", [{"x-tandem": "raw"}, {"x-tandem-profile": "bench"}])
def test_raw_plans_nothing(headers: dict[str, str]) -> None:
    desk = Desk(headers=headers)
    for _ in range(2):
        done = desk.serve([system("s"), user("who are you?")], tools=[BASH])
        assert done.prompt == done.raw
        assert (done.plan.mode, done.plan.row, done.plan.delta, done.questions) == ("raw", None, None, ())
    assert [state.view.turns for state in desk.sessions.states()] == [0]


@pytest.mark.spec("PRF-010", "OBS-025")
def test_shadow_plans_everything_and_changes_nothing() -> None:
    desk = Desk(headers={"x-tandem": "shadow"}, asked=surely("chat"))
    done = desk.serve([user("who are you?")], tools=[BASH])
    assert done.prompt == done.raw
    assert not done.plan.effects.under_plan
    row = done.plan.row
    assert row is not None
    assert (row.mode, row.class_, row.effort) == ("shadow", "chat", None)
    told = row.extra["shadow"]
    assert (told["effort"], told["budget"]) == ("low", 1024)
    assert told["notes"] == ["directory", "effort", "identity"]
    view = next(desk.sessions.states()).view
    assert (view.turns, view.class_id, view.notes) == (1, "chat", ())
    desk.headers = {}
    assert parts(desk.serve([user("who are you?")], tools=[BASH], session_ids=("x",))) == told["notes"]


@pytest.mark.spec("PRF-013", "PRF-014", "PRF-015")
def test_the_tools_profile_reads_the_clients_prompt() -> None:
    desk = Desk()
    done = desk.serve([user("who are you?")], kind="curl", tools=[BASH])
    assert done.plan.profile == "tools"
    assert done.prompt.ids == done.raw.ids
    assert done.questions == ()
    row = done.plan.row
    assert row is not None
    assert row.extra["prompt"]["dropped"] == ["identity", "moved_tool"]
    assert row.extra["profile_source"] == "tools"
    assert done.plan.effects.under_plan
    again = desk.serve([user("who are you?"), assistant("I."), user("go on")], kind="curl", tools=[BASH])
    assert again.prompt.ids == again.raw.ids


@pytest.mark.spec("PRF-014")
def test_a_routers_plan_under_the_clients_prompt() -> None:
    desk = Desk(documents=with_profile(documents(), "chat", prompt="client"))
    done = desk.serve([user("a")])
    assert done.prompt.ids == done.raw.ids
    assert done.plan.row is not None
    assert done.plan.row.extra["prompt"]["dropped"] == ["note", "router_budget"]
    assert not done.plan.effects.decides_cap
    side = desk.serve([TITLE], limit=1000)
    assert side.plan.effects.limit is None
    compaction = desk.serve([HISTORY], kind="opencode", headers={"x-tandem-profile": "chat"})
    assert compaction.plan.turn == "compaction"
    assert compaction.prompt.ids == compaction.raw.ids


@pytest.mark.spec("PRF-018")
def test_a_profiles_routing_replaces_the_policys_values() -> None:
    routed = {"chat": ClassRouting(effort="high", rules=("Be kind.",))}
    routing = msgspec.structs.replace(documents().profiles["chat"].routing, classes=routed)
    desk = Desk(documents=with_profile(documents(), "chat", routing=routing), asked=surely("chat"))
    done = desk.serve([user("a")])
    assert parts(done) == ["effort", "rule"]
    assert done.plan.effects.cap == 16_384


def test_a_text_completion_has_no_plan() -> None:
    done = Desk().serve([user("a")], is_text=True)
    assert (done.plan.turn, done.plan.row, done.plan.delta) == ("text", None, None)
    assert not done.plan.effects.under_plan


# Turns


@pytest.mark.spec("RTR-002", "RTR-003", "JRN-004", "NOTE-006")
def test_a_tool_turn_keeps_the_class_and_adds_no_block() -> None:
    desk = Desk()
    history = [user("build it"), assistant("", "{}")]
    first = desk.serve(history[:1], answer=history[1])
    assert len(first.questions) >= 1
    image = {"type": "image", "index": 0}
    caption = {"role": "user", "content": [{"type": "text", "text": "Attached media from tool result:"}, image]}
    own = {
        "role": "user",
        "content": [{"type": "text", "text": "Attached media from tool result: make it blue"}, image],
    }
    done = desk.serve([*history, tool("done")])
    assert (done.plan.turn, done.questions, parts(done)) == ("tool", (), [])
    assert done.plan.class_decision is not None
    assert (done.plan.class_decision.source, done.plan.class_decision.kept) == ("structural", "tool_results")
    media = prepare(desk.kit, _facts([*history, tool("x"), caption]), desk.documents)
    assert media.turn == "media"
    assert prepare(desk.kit, _facts([*history, tool("x"), own]), desk.documents).turn == "user"
    assert prepare(desk.kit, _facts([*history, caption]), desk.documents).turn == "user"
    assert prepare(desk.kit, _facts([*history, tool("x"), system("s")]), desk.documents).turn == "tool"


def _facts(messages: list[dict[str, Any]]) -> Any:
    return Facts(kind="opencode", conversation=Conversation(messages=messages), today=DAY)


@pytest.mark.spec("NOTE-001")
def test_no_note_behind_an_assistants_message() -> None:
    desk = Desk()
    desk.serve([user("a")], session_ids=("x",))
    done = desk.serve([user("a"), assistant("I am")], session_ids=("x",))
    assert (done.plan.turn, parts(done)) == ("assistant", [])
    assert len(done.plan.effects.replays) == 1


@pytest.mark.spec("SES-009", "SES-011", "SES-012", "SES-015")
@pytest.mark.parametrize(
    ("limit", "asked", "cap", "thinks"),
    [
        (None, AskedThinking(), 256, False),
        (50, AskedThinking(word="high"), 50, False),
        (9999, AskedThinking(number=0), 256, False),
        (None, AskedThinking(number=20), 256, True),
    ],
)
def test_a_side_request_is_served_small(limit: int | None, asked: AskedThinking, cap: int, thinks: bool) -> None:
    desk = Desk()
    desk.serve([user("a")], session_ids=("x",))
    before = [state.view for state in desk.sessions.states()]
    done = desk.serve([TITLE], session_ids=("x",), limit=limit, thinking=asked)
    assert (done.plan.turn, done.questions, done.plan.delta) == ("side", (), None)
    assert done.plan.effects.limit == cap
    assert (done.prompt.thinking == "off") is not thinks
    assert done.prompt.client_tokens == done.raw.client_tokens
    row = done.plan.row
    assert row is not None
    assert (row.kind, row.decision, row.action) == ("side", "openwebui-title", "SIDE_REQUEST")
    assert row.extra["side"]["cap"] == cap
    assert [state.view for state in desk.sessions.states()] == before


@pytest.mark.spec("SES-014", "SES-010")
def test_side_requests_off_in_shadow_and_of_the_documents_own_shapes() -> None:
    desk = Desk(headers={"x-tandem": "shadow"})
    done = desk.serve([TITLE])
    assert done.prompt == done.raw
    assert done.plan.row is not None
    assert done.plan.row.kind == "side"
    shape = SideShape(
        id="mine", client="curl", kind="tags", role="user", match="Give three  tags for the text", max_tokens=9
    )
    for structural, turn in (({"side_requests": "off"}, "user"), ({"side_shapes": (shape,)}, "side")):
        router = documents().router
        changed = msgspec.structs.replace(router.structural, **structural)
        with_it = with_document(documents(), router=msgspec.structs.replace(router, structural=changed))
        assert Desk(documents=with_it).serve([user("Give three\ntags for the text below")]).plan.turn == turn
        assert Desk(documents=with_it).serve([TITLE]).plan.turn == "user"


@pytest.mark.spec("SES-016", "SES-017", "SES-018")
def test_a_compaction_is_known_by_its_shape() -> None:
    desk = Desk()
    done = desk.serve([HISTORY], kind="opencode")
    assert (done.plan.turn, done.questions) == ("compaction", ())
    assert done.plan.class_decision is not None
    assert (done.plan.class_decision.class_id, done.plan.class_decision.source) == ("summarize", "structural")
    assert done.prompt.thinking == "off"
    assert done.plan.effects.note is None
    assert desk.serve([HISTORY], kind="open-webui").plan.turn == "user"
    assert desk.serve([user("short")], kind="opencode").plan.turn == "user"
    assert desk.serve([HISTORY], kind="opencode", tools=[BASH]).plan.turn == "user"
    shape = "You are a context summarization agent. You are given a conversation between a user and an agent."
    assert desk.serve([system(shape + " More."), user("x")], kind="hermes").plan.turn == "compaction"
    assert desk.serve([system(shape), user("x"), user("y")], kind="hermes").plan.turn == "user"


@pytest.mark.spec("SES-006", "SES-019")
def test_the_message_after_a_compaction_keeps_the_class_and_says_the_block_again() -> None:
    desk = Desk(asked=surely("code_edit"))
    known: dict[str, Any] = {"kind": "opencode", "session_ids": ("x",)}
    first = desk.serve([user("build it")], **known)
    desk.serve([HISTORY], answer=assistant(SUMMARY), **known)
    desk.asked = surely("chat")
    history = [user("What was done?"), assistant(SUMMARY), user("continue")]
    done = desk.serve(history, **known)
    decided = done.plan.class_decision
    assert decided is not None
    assert (decided.class_id, decided.source, decided.kept) == ("code_edit", "sticky", "after_compaction")
    assert not [question for question in done.questions if question.id == "class"]
    assert parts(done) == parts(first)
    after = desk.serve([*history, assistant("ok"), user("continue")], **known)
    assert after.plan.class_decision is not None
    assert after.plan.class_decision.class_id == "chat", "an ordinary message"
    other = desk.serve([user("continue")], kind="opencode", session_ids=("y",))
    assert other.plan.class_decision is not None
    assert other.plan.class_decision.class_id == "chat", "no compaction before"


@pytest.mark.spec("SMP-002", "NOTE-010")
def test_a_turn_that_is_begun_again_gets_what_it_got() -> None:
    desk = Desk(asked=surely("code_edit"))
    known: dict[str, Any] = {"session_ids": ("x",)}
    first = desk.serve([user("build it")], **known)
    desk.asked = surely("writing")
    again = desk.serve([user("build it")], **known)
    assert again.prompt == first.prompt
    assert again.questions == ()
    assert again.plan.class_decision is not None
    assert again.plan.class_decision.class_id == "code_edit"
    changed = desk.serve([system("another head"), user("build it")], **known)
    assert changed.questions == () or {question.id for question in changed.questions} == {"package"}
    assert parts(changed) == parts(first)


@pytest.mark.spec("NOTE-010")
def test_a_turn_that_is_begun_again_adds_nothing_whatever_is_answered() -> None:
    def picking(name: str) -> Any:
        def answer(question: Question) -> Answer:
            ids = [option.id for option in question.options]
            wanted = "code_edit" if question.id == "class" else name
            return Answer(probabilities={each: float(each == wanted) for each in ids})

        return answer

    desk = Desk(asked=picking("test-cli"))
    first = desk.serve([user("build it")], session_ids=("x",), tools=[BASH])
    assert "package:test-cli" in parts(first)
    desk.asked = picking("test-data")
    again = desk.serve([user("build it")], session_ids=("x",), tools=[BASH])
    assert again.questions == ()
    assert again.prompt == first.prompt


# Notes in the prompt


@pytest.mark.spec("NOTE-001", "NOTE-005", "NOTE-011", "JRN-002")
def test_a_note_stands_before_the_turn_end_and_the_row_names_it() -> None:
    desk = Desk(asked=surely("chat"))
    history = [system("s"), user("a"), assistant("b")]
    first = desk.serve(history[:2], answer=history[2])
    second = desk.serve([*history, user("who are you?")])
    new = second.placed.notes[-1]
    end = new.position + new.note.tokens
    assert second.prompt.ids[end] in desk.kit.turn_ends
    assert second.prompt.ids[: len(first.prompt.ids)] == first.prompt.ids
    assert first.plan.row is not None
    assert second.plan.row is not None
    row = with_notes(second.plan.row, second.placed)
    assert [(note["kind"], note["parts"]) for note in row.detail["notes"]] == [
        ("replayed", ["effort"]),
        ("new", ["identity"]),
    ]
    assert (row.position, row.hidden_tokens) == (new.position, second.prompt.hidden_tokens)
    assert second.prompt.insertion == end
    json.dumps([row.detail, row.extra])
    assert "who are you" not in json.dumps([{**row.detail, "digest": ""}, row.extra])


@pytest.mark.spec("NOTE-012")
def test_what_does_not_fit_the_window_stays_out() -> None:
    desk = Desk(asked=surely("chat"))
    first = desk.serve([user("a")], session_ids=("x",))
    desk.room = first.prompt.hidden_tokens
    second = desk.serve([user("a"), assistant("b"), user("who are you?")], session_ids=("x",))
    assert second.placed.marks == ("note.window",)
    assert second.prompt.hidden_tokens == first.prompt.hidden_tokens
    assert second.plan.row is not None
    assert with_notes(second.plan.row, second.placed).detail["marks"] == ["note.window"]
    desk.room = 0
    third = desk.serve([user("a"), assistant("b"), user("who are you?"), assistant("c"), user("d")], session_ids=("x",))
    assert third.prompt.ids == third.raw.ids


@pytest.mark.spec("FIT-001")
def test_the_directory_is_moved_into_the_turn() -> None:
    desk = Desk(asked=surely("chat"))
    history = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    served = [
        desk.serve(history[:count], session_ids=("x",), tools=[moved_to(path)])
        for count, path in ((1, "/a"), (3, "/b"), (5, "/b"))
    ]
    assert ["directory" in parts(each) for each in served] == [True, True, False]
    for before, after in itertools.pairwise(served):
        assert after.prompt.ids[: len(before.prompt.ids)] == before.prompt.ids
    new = served[0].plan.effects.note
    assert new is not None
    assert new.runs[0].kind == "client"
    desk.changed(client_cwd="off")
    off = desk.serve(history[:1], session_ids=("y",), tools=[BASH])
    assert "directory" not in parts(off)
    assert off.prompt.client_tokens == off.raw.client_tokens


@pytest.mark.spec("FIT-007", "FIT-008")
def test_a_lean_model_is_asked_nothing_and_carries_nothing() -> None:
    desk = Desk()
    fit = ModelFit(questions=False, packages=False, lean=True, effort_note=False)
    desk.changed(fit=fit)
    done = desk.serve([user("build it")])
    assert (done.questions, parts(done)) == ((), [])
    assert done.plan.class_decision is not None
    assert (done.plan.class_decision.class_id, done.plan.class_decision.source) == ("chat", "default")
    assert done.plan.row is not None
    assert done.plan.row.extra["note"]["skipped"] == ["effort_note_skipped:model_fit"]
    assert done.plan.row.extra["model_fit"]["questions"] is False


# The planner itself


@pytest.mark.spec("RTR-028", "RTR-007")
def test_a_question_that_nobody_answers_is_no_answer() -> None:
    desk = Desk(asked=lambda question: Answer(error="engine_timeout"))
    done = desk.serve([user("build it")])
    decided = done.plan.class_decision
    assert decided is not None
    assert (decided.class_id, decided.source) == ("chat", "default")
    assert [stage.error for stage in decided.stages] == ["engine_timeout"]
    assert next(desk.sessions.states()).view.class_id is None, "the session's first message is still to come"


def test_the_plan_is_made_once() -> None:
    desk = Desk()
    prepared = prepare(desk.kit, _facts([user("a")]), desk.documents)
    planner = Planner(desk.kit, prepared, desk.sessions.open(prepared.session))
    step = planner.next()
    while isinstance(step, Question):
        step = planner.next(Answer())
    assert planner.next() is step
    assert planner.next(Answer(error="late")) is step


@pytest.mark.spec("SES-007")
def test_a_header_that_names_nothing_plans_nothing() -> None:
    with pytest.raises(PlanRefused):
        Desk(headers={"x-tandem": "maybe"}).serve([user("a")])
