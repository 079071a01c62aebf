"""A planner driven as a request's task drives it, without a service: question out, answer in, notes placed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tandem.conductor.documents import Documents, Profile, Router, parse, shipped_documents
from tandem.conductor.documents.documents import split_key
from tandem.conductor.router.client_kind import ClientKind
from tandem.conductor.router.deltas import answered
from tandem.conductor.router.facts import Facts
from tandem.conductor.router.kit import Kit, kit_for
from tandem.conductor.router.modelfit import NO_FIT, ModelFit
from tandem.conductor.router.placing import Placed, place
from tandem.conductor.router.plan import Answer, Plan, Question
from tandem.conductor.router.planner import Planner
from tandem.conductor.router.prepare import Prepared, prepare
from tandem.conductor.sessions import Sessions, SessionView
from tandem.engine.text.model import Conversation, TextModel
from tandem.engine.text.prompt import Prompt

__all__ = ["DAY", "Asked", "Desk", "Served", "documents_in_use"]

DAY = datetime.date(2026, 1, 2)
Asked = Callable[[Question], Answer]
Message = Mapping[str, Any]


def documents_in_use(router: Path | None = None) -> Documents:
    """The shipped documents, with the router document of a file in place of theirs where one is named."""
    bodies = {key: parse(split_key(key)[0], body) for key, body in shipped_documents().items()}
    profiles = {key.partition("/")[2]: body for key, body in bodies.items() if isinstance(body, Profile)}
    rest: dict[str, Any] = {key: body for key, body in bodies.items() if "/" not in key}
    if router is not None:
        rest["router"] = parse("router", msgspec.json.decode(router.read_bytes()))
        if not isinstance(rest["router"], Router):
            raise TypeError(router)
    versions = {"monitor": 0, **dict.fromkeys(bodies, 1)}
    return Documents(profiles=profiles, monitor=None, versions=versions, **rest)


@dataclass(frozen=True, slots=True)
class Served:
    """One request as it would join the queue."""

    plan: Plan
    placed: Placed
    prepared: Prepared

    @property
    def prompt(self) -> Prompt:
        return self.placed.prompt


@dataclass
class Desk:
    """Documents, sessions and a kit; `asked` answers the questions."""

    text: TextModel
    asked: Asked
    documents: Documents = field(default_factory=documents_in_use)
    fit: ModelFit = NO_FIT
    sessions: Sessions = field(default_factory=Sessions)
    window: int | None = None
    kit: Kit = field(init=False)

    def __post_init__(self) -> None:
        self.kit = kit_for(self.text, fit=self.fit)

    def facts(
        self,
        messages: Sequence[Message],
        *,
        kind: ClientKind = "anon",
        tools: Sequence[Message] = (),
        headers: Mapping[str, str] | None = None,
        now: float = 0.0,
    ) -> Facts:
        conversation = Conversation(messages=messages, tools=tools, today=DAY)
        return Facts(kind=kind, conversation=conversation, today=DAY, now=now, headers=headers or {})

    def plan(self, prepared: Prepared, session: SessionView, prompt: Prompt | None = None) -> Plan:
        """Without a prompt nothing counts its tokens, as for a session that is only supposed."""
        tokens = None if prompt is None else prompt.client_tokens
        planner = Planner(self.kit, prepared, session, prompt_tokens=tokens, inside=prompt is not None)
        step = planner.next()
        while isinstance(step, Question):
            step = planner.next(self.asked(step))
        return step

    def serve(self, facts: Facts) -> Served:
        """Planned, placed and committed."""
        prepared = prepare(self.kit, facts, self.documents)
        session = self.sessions.open(prepared.session)
        prompt = self.text.render(prepared.conversation)
        plan = self.plan(prepared, session, prompt)
        room = None if self.window is None else self.window - 1 - len(prompt.ids)
        placed = place(self.kit, plan, prompt, room)
        if placed.delta is not None:
            self.sessions.commit(session, placed.delta)
        return Served(plan, placed, prepared)

    def answered(self, served: Served, answer: Message) -> None:
        """What its session keeps of an answer."""
        delta = answered(self.kit, served.prepared, served.plan, answer)
        if delta is not None:
            self.sessions.commit(served.plan.session, delta)
