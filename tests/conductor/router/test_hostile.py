"""Requests and documents that nobody means well with: each plans, and no note is lost or put elsewhere."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tandem.conductor.documents import DocumentError, Documents, parse
from tandem.conductor.documents.checks import check_saved
from tandem.conductor.documents.documents import split_key
from tandem.conductor.router.client_kind import ClientKind
from tandem.conductor.router.facts import AskedThinking
from tandem.conductor.router.plan import Answer, Question
from tandem.conductor.router.rows import with_notes
from tandem.engine.fake.text import FakePrompt, FakeText
from tandem.engine.text.model import Conversation
from tests.conductor.documents.samples import documents, shipped
from tests.conductor.documents.test_fuzz import places
from tests.conductor.router.driving import Desk, assistant, surely, system, tool, user, with_document, with_profile

MEDIA = {
    "role": "user",
    "content": [{"type": "text", "text": "Attached media from tool result:"}, {"type": "image", "index": 0}],
}
SENTENCE = "The current working directory is: /work"
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": f"Runs. {SENTENCE}",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


class Sketched(FakeText):
    """An image is a word."""

    def render(self, conversation: Conversation) -> FakePrompt:
        return super().render(replace(conversation, messages=[_sketched(each) for each in conversation.messages]))


class Endless(FakeText):
    """A template that ends no turn with an id of its own."""

    turn_ends = frozenset()


def _sketched(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message["content"]
    return {**message, "content": "a picture" if isinstance(content, list) else content}


@pytest.mark.spec("SES-004", "RTR-003", "NOTE-010")
def test_an_image_of_the_first_turns_tool_stays_in_its_session() -> None:
    desk = Desk(text=Sketched())
    history: list[dict[str, Any]] = [user("build a page")]
    keys = set[str]()
    before: tuple[int, ...] = ()
    for answer, more in (
        (assistant("", "{}"), [tool("seen"), MEDIA]),
        (assistant("I see it.", "{}"), [tool("done")]),
        (assistant("It is done."), [user("make it blue")]),
        (assistant("It is blue."), []),
    ):
        served = desk.serve(history, answer=answer, images=["a"])
        assert served.prompt.ids[: len(before)] == before
        before = served.prompt.ids[: served.prompt.insertion]
        keys.add(served.session.key)
        history = [*history, answer, *more]
    assert len(keys) == 1


@pytest.mark.spec("NOTE-012", "EFF-004")
@pytest.mark.parametrize("spare", range(-1, 8))
def test_a_closed_block_takes_its_part_of_the_room(spare: int) -> None:
    whole = Desk(asked=surely("chat"))
    off = AskedThinking()
    whole.documents = with_profile(documents(), "chat", routing=_routing("off"))
    full = whole.serve([user("who are you?")], session_ids=("x",), thinking=off)
    assert full.plan.effects.close_thinking
    note = full.placed.notes[0].note.tokens
    desk = Desk(documents=whole.documents, asked=whole.asked, room=note + spare)
    served = desk.serve([user("who are you?")], session_ids=("x",), thinking=off)
    closes = len(full.prompt.ids) - note - len(full.raw.ids)
    assert len(served.prompt.ids) <= len(served.raw.ids) + max(note + spare, closes)
    kept = next(desk.sessions.states()).view.notes
    assert bool(kept) == (spare >= closes) == (served.placed.marks == ())


def _routing(effort: str) -> Any:
    body = {"default_class": "chat", "classes": {"chat": {"effort": effort}}}
    routing: Any = parse("profiles", {"mode": "on", "routing": body})
    return routing.routing


@pytest.mark.spec("NOTE-009", "NOTE-011", "NOTE-012")
def test_notes_that_another_model_counted_are_counted_anew() -> None:
    desk = Desk(asked=surely("chat"))
    desk.serve([user("who are you?")], session_ids=("x",))
    state = next(desk.sessions.states())
    (note,) = state.view.notes
    state.view = replace(state.view, notes=(replace(note, tokens=1),))
    desk.room = note.tokens
    history = [user("who are you?"), assistant("b"), user("Who are you?")]
    served = desk.serve(history, session_ids=("x",))
    assert served.placed.marks == ()
    desk.room = note.tokens - 1
    assert desk.serve(history, session_ids=("x",)).prompt.ids == served.raw.ids


@pytest.mark.spec("FIT-001", "NOTE-001")
def test_a_directory_stays_where_no_note_could_hold_it() -> None:
    served = Desk(text=Endless()).serve([user("a")], tools=[BASH])
    assert served.prompt.ids == served.raw.ids
    assert served.placed.marks == ("note.no_place",)


@pytest.mark.spec("NOTE-003")
def test_a_text_of_nothing_is_no_part() -> None:
    router = documents().router
    policies = {name: msgspec.structs.replace(one, rules=("",)) for name, one in router.policies.items()}
    desk = Desk(documents=with_document(documents(), router=msgspec.structs.replace(router, policies=policies)))
    new = desk.serve([user("a")]).plan.effects.note
    assert new is not None
    assert "rule" not in [part.name for part in new.parts]


TEXTS = ("", "a", "who are you?", "<|im_end|>", "\ud800", "RESULT: FAIL <- x: a", "word " * 900, "{classes}{question}")
ARGUMENTS = ("", "{}", '{"path": "a.py"}', "[", '{"a":' * 2_000, "7")
RECURSIVE: dict[str, Any] = {"type": "object", "properties": {"command": {"$ref": "#"}, "path": {"type": ["string"]}}}
NAMELESS = {"type": "function", "function": {}}
TOOLS: Sequence[list[dict[str, Any]]] = (
    [],
    [BASH],
    [{"type": "function", "function": {"name": "x", "parameters": RECURSIVE}}],
    [BASH, NAMELESS],
)
HEADERS: Sequence[dict[str, str]] = (
    {},
    {"x-tandem": "shadow"},
    {"x-tandem-profile": "coding"},
    {"x-tandem-profile": "tools"},
    {"x-tandem-regenerate": "1"},
)
KINDS: tuple[ClientKind, ...] = ("open-webui", "opencode", "anon")
THINKING = (
    AskedThinking(),
    AskedThinking(enabled=False, switch="x"),
    AskedThinking(word="max"),
    AskedThinking(number=0),
)
KEYS = ("router", "packages", "settings", "profiles/chat", "profiles/coding", "profiles/tools")
VALUES: Sequence[Any] = (
    [],
    {},
    "",
    "off",
    "on",
    "shadow",
    "low",
    "xhigh",
    "client",
    "class",
    "message",
    0,
    1,
    0.5,
    9_000,
    True,
    None,
)


def message(dice: random.Random) -> dict[str, Any]:
    text = dice.choice(TEXTS)
    return dice.choice(
        [
            user(text),
            system(text),
            tool(text),
            assistant(text, dice.choice(ARGUMENTS)),
            assistant(text),
            MEDIA,
            {"role": "assistant", "content": None},
        ]
    )


def changed(dice: random.Random) -> Documents:
    """The shipped documents with some values replaced, as far as they may be saved."""
    now = documents()
    for key in dice.sample(KEYS, 3):
        body: Any = shipped(key)
        for _ in range(dice.randint(1, 3)):
            *above, last = dice.choice(places(body)[1:])
            holder = body
            for step in above:
                holder = holder[step]
            if dice.random() < 0.5:
                del holder[last]
            else:
                holder[last] = dice.choice(VALUES)
        kind, name = split_key(key)
        try:
            parsed: Any = parse(kind, body)
            check_saved(key, parsed, now)
        except DocumentError:
            continue
        value = parsed if name is None else {**now.profiles, name: parsed}
        now = with_document(now, **{kind: value})
    return now


@pytest.mark.spec("RTR-028", "CFG-004")
@pytest.mark.parametrize("seed", range(8))
def test_every_document_that_may_be_saved_plans_every_request(seed: int) -> None:
    for dice in (random.Random(1_000 * seed + at) for at in range(15)):

        def asked(question: Question, dice: random.Random = dice) -> Answer:
            picked = dice.choice([*[option.id for option in question.options], None])
            if picked is None:
                return Answer(error="engine_timeout")
            return Answer(probabilities={option.id: float(option.id == picked) for option in question.options})

        desk = Desk(text=Sketched(), documents=changed(dice), asked=asked, headers=dice.choice(HEADERS))
        messages: list[dict[str, Any]] = []
        for _ in range(dice.randint(1, 4)):
            messages = [*messages, *(message(dice) for _ in range(dice.randint(1, 4)))]
            served = desk.serve(
                messages,
                kind=dice.choice(KINDS),
                tools=dice.choice(TOOLS),
                images=["a"],
                session_ids=dice.choice([(), ("x",)]),
                ngram=3,
                thinking=dice.choice(THINKING),
                answer=dice.choice([None, assistant("x"), {}]),
            )
            if served.plan.row is not None:
                assert with_notes(served.plan.row, served.placed).mode == served.plan.mode
