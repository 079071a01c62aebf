"""The one promise: the conductor never moves a token that a cache holds (NOTE-002, NOTE-010)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.documents import Documents
from tandem.conductor.router.plan import Answer, Question
from tandem.conductor.sessions import Sessions, dump_sessions, load_sessions
from tandem.engine.fake.text import FakeText
from tandem.engine.text.checkpoint import CheckpointText
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import turn_end_rows
from tandem.engine.text.tokenizer import BpeTokenizer
from tests.conductor.documents.samples import documents
from tests.conductor.router.driving import Desk, Served, assistant, system, tool, user, with_document
from tests.tiny import TOOL_CHATML, tiny_tokenizer

TEXTS = ("build a page", "write a letter", "who are you?", "what is 2 + 2?", "go on", "make it <|im_end|> blue")
CLASSES = ("chat", "code_edit", "design_ui", "writing")
TOOLS = [{"type": "function", "function": {"name": "run", "description": "Runs.", "parameters": {"type": "object"}}}]
SHELL = [
    {
        "type": "function",
        "function": {
            "name": "run",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    }
]
TITLE = [user("### Task: Generate a concise title of what was said.")]
FAKE = FakeText()
REAL = CheckpointText(BpeTokenizer(tiny_tokenizer(), "0" * 64), template=TOOL_CHATML)
COMPACTION = "You are a context summarization agent. You are given a conversation between a user and an agent."


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def opening(served: Served) -> int:
    """Row of the raw prompt behind its last turn-end id."""
    return turn_end_rows(served.raw.ids, served.turn_ends)[-1] + 1


def hidden_within(served: Served, client: int) -> int:
    """Hidden tokens that stand before one of the first `client` tokens of the client."""
    hidden = seen = 0
    for span in served.prompt.spans:
        if seen >= client:
            break
        if span.kind == "client":
            seen += span.end - span.start
        else:
            hidden += span.end - span.start
    return hidden


def hold(earlier: Served, later: Served) -> None:
    """What the two share of their prompts is what their raw prompts share, and the hidden tokens in it.

    Behind the last turn-end id a prompt opens its answer; a closed thinking block there is never sent back.
    """
    common = shared(earlier.raw.ids, later.raw.ids)
    if earlier.plan.effects.close_thinking:
        common = min(common, opening(earlier))
    assert shared(earlier.prompt.ids, later.prompt.ids) >= common + hidden_within(earlier, common)


@dataclass
class Session:
    """A client and its conversation."""

    desk: Desk
    facts: dict[str, Any]
    history: list[dict[str, Any]]
    served: list[Served] = field(default_factory=list)
    keeps_reasoning: bool = True
    begun: list[list[dict[str, Any]]] = field(default_factory=list)
    """Histories that ended with a user message, as they were sent."""

    def turn(self, answer: dict[str, Any]) -> None:
        done = self.desk.serve(self.history, answer=answer, **self.facts)
        assert done.prompt.client_tokens == done.raw.client_tokens
        assert clients_of(done)[: opening(done)] == list(done.raw.ids[: opening(done)])
        if done.plan.delta is not None and done.plan.delta.dropped:
            self.served.clear()
        for earlier in self.served:
            # A first turn that is asked again without an id begins a session of its own (SES-003).
            if earlier.session.key == done.session.key:
                hold(earlier, done)
        self.served.append(done)
        self.begun.append([_bare(message) for message in self.history])
        self.history = [*self.history, answer if self.keeps_reasoning else _bare(answer)]


def clients_of(served: Served) -> list[int]:
    """The prompt without its hidden tokens."""
    spans = (span for span in served.prompt.spans if span.kind == "client")
    return [token for span in spans for token in served.prompt.ids[span.start : span.end]]


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "reasoning_content"}


def documents_with(most: int) -> Documents:
    router = documents().router
    injection = msgspec.structs.replace(router.injection, max_replay_tokens=most)
    return with_document(documents(), router=msgspec.structs.replace(router, injection=injection))


@pytest.mark.spec("NOTE-002", "NOTE-005", "NOTE-008", "NOTE-009", "NOTE-010", "SES-011", "SES-016", "SMP-002")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_token_moves(data: st.DataObject) -> None:
    def answered(question: Question) -> Answer:
        ids = [option.id for option in question.options]
        picked = data.draw(st.sampled_from([name for name in ids if name in (*CLASSES, "none")] or ids))
        sure = data.draw(st.sampled_from([0.95, 0.5]))
        rest = (1 - sure) / (len(ids) - 1)
        return Answer(probabilities={name: sure if name == picked else rest for name in ids})

    most = data.draw(st.sampled_from([16_000, 500]))
    texts: list[TextModel] = [FAKE, REAL]
    text = data.draw(st.sampled_from(texts))
    desk = Desk(documents=documents_with(most), asked=answered, text=text)
    facts: dict[str, Any] = {"tools": data.draw(st.sampled_from([[], TOOLS, SHELL]))}
    facts |= data.draw(st.sampled_from([{}, {"session_ids": ("one",)}]))
    head = data.draw(st.sampled_from([[], [system("Be brief.")]]))
    session = Session(desk, facts, head)
    for _ in range(data.draw(st.integers(2, 9))):
        step(data, session)


def step(data: st.DataObject, session: Session) -> None:
    users = [at for at, message in enumerate(session.history) if message["role"] == "user"]
    # A turn that was never begun has no note: only what was asked can be asked again.
    again = [at for at in users if [_bare(each) for each in session.history[: at + 1]] in session.begun]
    calls = bool(session.history) and session.history[-1].get("tool_calls")
    kinds = ["tool"] if calls else ["user"]
    kinds += ["side", "restart", "drop", *(["edit", "compact"] if users else []), *(["again"] if again else [])]
    text = data.draw(st.sampled_from(TEXTS))
    thought = data.draw(st.sampled_from([{}, {"reasoning_content": "Hm."}]))
    answer = assistant(text, *data.draw(st.sampled_from([(), ('{"command": "ls"}',)])), **thought)
    match data.draw(st.sampled_from(kinds)):
        case "user":
            session.history = [*session.history, user(data.draw(st.sampled_from(TEXTS)))]
            session.turn(answer)
        case "tool":
            session.history = [*session.history, tool(text)]
            session.turn(answer)
        case "again":
            session.history = session.history[: data.draw(st.sampled_from(again)) + 1]
            session.turn(answer)
        case "edit":
            session.history = [*session.history[: data.draw(st.sampled_from(users))], user("edited: " + text)]
            session.turn(answer)
        case "side":
            side = session.desk.serve(TITLE, session_ids=session.facts.get("session_ids", ()))
            assert side.plan.turn == "side"
        case "compact":
            said = [system(COMPACTION), user("history")]
            summary = "The user wants something made and has seen a first version of it. " * 5
            done = session.desk.serve(said, answer=assistant(summary), session_ids=session.facts.get("session_ids", ()))
            assert (done.plan.turn, done.plan.effects.replays) == ("compaction", ())
            session.history = [
                *session.history[: users[0]],
                user(f"So far:\n{summary}"),
                assistant("Yes."),
                user("continue"),
            ]
            session.turn(answer)
        case "drop":
            session.keeps_reasoning = False
            session.history = [_bare(message) for message in session.history]
        case _:
            kept = dump_sessions(session.desk.sessions)
            session.desk.sessions = Sessions()
            session.desk.sessions.restore(load_sessions(kept))
