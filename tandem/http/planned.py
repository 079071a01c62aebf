"""What planning gives of a request, and what of it is already known where the plan still waits for an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from tandem.conductor.documents import Documents
from tandem.conductor.masking.mask import SecretMask
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.placing import Placed
from tandem.conductor.router.plan import NO_EFFECTS, Effects, Plan, Question
from tandem.conductor.router.planner import Planner
from tandem.conductor.router.prepare import Prepared
from tandem.conductor.router.questions import Asked
from tandem.conductor.sessions import SessionView
from tandem.engine.text.prompt import Prompt
from tandem.http.monitoring import Monitoring
from tandem.http.openai.requests import ChatRequest, Request

__all__ = ["Begun", "Inside", "Planned", "applied"]

RequestT = TypeVar("RequestT", bound=Request)


@dataclass(frozen=True, slots=True)
class Inside:
    """A question inside the conversation (RTR-018)."""

    question: Question
    asked: Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a plan is made of."""

    documents: Documents
    kit: Kit
    prepared: Prepared
    session: SessionView
    prompt: Prompt
    limit: int
    planner: Planner


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What joins the queue."""

    prompt: Prompt
    limit: int
    effects: Effects = NO_EFFECTS
    mask: SecretMask | None = None
    is_side: bool | None = None
    """None: its shape tells, as on the raw path."""
    plan: Plan | None = None
    prepared: Prepared | None = None
    placed: Placed | None = None
    documents: Documents | None = None
    ms: float = 0.0
    """What planning took, its questions included; the wait for a slot and what it reads there is not."""
    monitoring: Monitoring | None = None
    """There where the monitor looks on."""
    inside: Inside | None = None
    """There is no plan yet: it waits for the answer of this, under the grant. All else here is what is known before."""


def applied(request: RequestT, effects: Effects, *, ngram: int = 0) -> RequestT:
    """The request as its plan has it sampled and capped; itself where the plan leaves that alone. `ngram` is the
    server's own `no_repeat_ngram_size`, where the client's is dropped or was not sent (SMP-009).
    """
    rules, sampling = request.rules, effects.sampling
    if sampling.rules:
        rules = replace(rules, **sampling.rules)
    if effects.drop_ngram or (ngram and not request.sends_ngram):
        rules = replace(rules, no_repeat_ngram=ngram)
    if rules is not request.rules:
        request = replace(request, rules=rules)
    if effects.decides_cap and isinstance(request, ChatRequest):
        request = replace(request, budget=replace(request.budget, cap=effects.cap))
    return request
