"""A planner driven as a request's task drives it, on the fake's text model."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tandem.conductor.documents import Documents
from tandem.conductor.router.deltas import answered
from tandem.conductor.router.facts import Facts
from tandem.conductor.router.kit import Kit, kit_for
from tandem.conductor.router.placing import Placed, place
from tandem.conductor.router.plan import Answer, Plan, Question
from tandem.conductor.router.planner import Planner
from tandem.conductor.router.prepare import Prepared, prepare
from tandem.conductor.sessions import Sessions, SessionView
from tandem.engine.fake.text import FakeText
from tandem.engine.text.model import Conversation, TextModel
from tandem.engine.text.prompt import Prompt
from tests.conductor.documents.samples import documents

__all__ = ["DAY", "Desk", "Served", "assistant", "surely", "system", "tool", "user", "with_document", "with_profile"]

DAY = datetime.date(2026, 1, 2)
Asked = Callable[[Question], Answer]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def assistant(text: str, *calls: str, **more: Any) -> dict[str, Any]:
    """`calls` are the arguments of calls of one tool."""
    made = [
        {"id": f"call{at}", "type": "function", "function": {"name": "run", "arguments": c}}
        for at, c in enumerate(calls)
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {}), **more}


def tool(text: str, call: str = "call0") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


def surely(class_id: str) -> Asked:
    """Answers the class question with one class and the package question with none."""

    def answer(question: Question) -> Answer:
        picked = class_id if question.id == "class" else "none"
        return Answer(probabilities={option.id: float(option.id == picked) for option in question.options})

    return answer


def with_document(own: Documents, **documents: Any) -> Documents:
    """The documents with others in their place: `router=…`, `settings=…`, `profiles=…`."""
    return Documents(**{name: getattr(own, name) for name in own.__dataclass_fields__} | documents)


def with_profile(own: Documents, name: str, **keys: Any) -> Documents:
    """The documents with other keys in one profile."""
    return with_document(own, profiles={**own.profiles, name: msgspec.structs.replace(own.profiles[name], **keys)})


@dataclass(frozen=True)
class Served:
    """One request, done."""

    prepared: Prepared
    session: SessionView
    plan: Plan
    placed: Placed
    raw: Prompt
    questions: tuple[Question, ...]
    turn_ends: frozenset[int]

    @property
    def prompt(self) -> Prompt:
        return self.placed.prompt


@dataclass
class Desk:
    """Sessions, documents and a kit; `asked` answers the questions."""

    documents: Documents = field(default_factory=documents)
    text: TextModel = field(default_factory=FakeText)
    sessions: Sessions = field(default_factory=Sessions)
    asked: Asked = field(default_factory=lambda: surely("code_edit"))
    headers: Mapping[str, str] = field(default_factory=dict)
    room: int | None = None
    kit: Kit = field(init=False)
    clock: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.kit = kit_for(self.text)

    def serve(
        self, messages: Sequence[Mapping[str, Any]], *, answer: Mapping[str, Any] | None = None, **facts: Any
    ) -> Served:
        """`answer` is what the engine writes; without one the request ends before it has any."""
        conversation = Conversation(messages=messages, tools=facts.pop("tools", ()), today=DAY)
        given = {"kind": "open-webui", "headers": self.headers, "today": DAY, "now": float(next(self.clock)), **facts}
        known = Facts(conversation=conversation, **given)
        prepared = prepare(self.kit, known, self.documents)
        session = self.sessions.open(prepared.session)
        raw = self.text.render(conversation)
        prompt = self.text.render(prepared.conversation)
        planner = Planner(self.kit, prepared, session, prompt_tokens=prompt.client_tokens)
        step, questions = planner.next(), list[Question]()
        while isinstance(step, Question):
            questions.append(step)
            step = planner.next(self.asked(step))
        placed = place(self.kit, step, prompt, self.room)
        if placed.delta is not None:
            self.sessions.commit(session, placed.delta)
        if answer is not None and (delta := answered(self.kit, prepared, step, answer)) is not None:
            self.sessions.commit(session, delta)
        return Served(prepared, session, step, placed, raw, tuple(questions), self.kit.turn_ends)

    def changed(self, **settings: Any) -> None:
        """Other settings in the kit."""
        self.kit = replace(self.kit, **settings)
