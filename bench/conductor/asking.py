"""Who answers the class question: an engine in this process, or a server that is running."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from bench.conductor.desk import DAY, Desk
from bench.conductor.labelled import Labelled, messages_of, text_of
from bench.conductor.remote import post
from bench.conductor.tally import Judged, judged
from tandem.bench.subject import BenchError
from tandem.conductor.documents import Documents
from tandem.conductor.router.modelfit import ModelFit
from tandem.conductor.router.plan import Answer, Question, StageResult
from tandem.conductor.router.prepare import prepare
from tandem.conductor.router.questions import rendered
from tandem.conductor.sessions import SessionView
from tandem.engine.text.model import TextModel
from tandem.engine.verbs import Engine, RowsT, SeqT

__all__ = ["InProcess", "Judge", "Server", "ask"]

Judge: TypeAlias = Callable[[Labelled], Judged | None]
PROFILE = "general"
SURE = 0.9
"""How sure the class was that a follow-up's session has."""


def ask(engine: Engine[SeqT, RowsT], text: TextModel, question: Question) -> Answer:
    """The engine stage's answer, as a lane job has it: the question's prompt is read and its last row looked at."""
    if question.stage != "engine" or question.under_grant:
        return Answer(error=f"no_{question.stage}")
    started = time.perf_counter()
    asked = rendered(question, text)
    seq = engine.open(asked.prompt)
    try:
        while (read := engine.prefill(seq, len(asked.prompt.ids))).done < read.total:
            pass
        shares = engine.ask(seq, (), asked.options)
    finally:
        engine.close(seq)
    return Answer(
        probabilities={option.id: share for option, share in zip(question.options, shares, strict=True)},
        ms=1e3 * (time.perf_counter() - started),
        prompt_tokens=read.total,
        prefilled=read.total - read.resumed,
        reused=read.resumed,
    )


class InProcess:
    """The planner's own code over an engine. The package question is not put: it has no labels here."""

    def __init__(self, engine: Engine[Any, Any], text: TextModel, fit: ModelFit, documents: Documents) -> None:
        def asked(question: Question) -> Answer:
            return ask(engine, text, question) if question.id == "class" else Answer(error="not_asked")

        self._desk = Desk(text, asked, documents, fit)

    def judge(self, prompt: Labelled) -> Judged:
        desk, headers = self._desk, {"x-tandem-profile": PROFILE}
        kind: Any = "opencode" if prompt.shape == "opencode" else "anon"
        prepared = prepare(desk.kit, desk.facts(messages_of(prompt), kind=kind, headers=headers), desk.documents)
        session = SessionView(key="c:bench", first_date=DAY)
        if prompt.previous is not None:
            session = replace(session, class_id=prompt.previous, confidence=SURE, turns=1)
        decided = desk.plan(prepared, session).class_decision
        if decided is None:
            raise BenchError(f"profile {PROFILE} classifies nothing")
        return judged(prompt, decided.class_id, decided.source, decided.stages)


@dataclass(frozen=True)
class Server:
    """A server's test box (PRF-019), which knows no sessions: a follow-up is asked as a first message."""

    url: str
    key: str | None = None
    send: Callable[[str, str | None, dict[str, Any]], dict[str, Any]] = post

    def judge(self, prompt: Labelled) -> Judged | None:
        if prompt.kind == "structural":
            return None
        address = f"{self.url.rstrip('/')}/v1/conductor/test"
        shown = self.send(address, self.key, {"text": text_of(prompt), "profile": PROFILE})
        return judged(prompt, shown["class"], shown["source"], [_stage(each) for each in shown["stages"]])


def _stage(shown: dict[str, Any]) -> StageResult:
    return StageResult(
        stage=shown["stage"],
        label=shown["label"],
        confidence=shown["confidence"],
        probabilities=shown["probabilities"],
        ms=shown["ms"],
        error=shown["error"],
        guard=shown["guard"],
    )
