"""From a parsed request to the prompt that joins the queue: rendered, and under a plan with all that it decided.

Without --conductor-config, and in mode `raw`, this is the engine's own path: the session's date, then the rendering.
With a conductor `tandem.conductor.router.planner` decides, and its questions are asked on the way. What reads a long
history or writes a long prompt runs in a worker thread (SCH-113).
"""

from __future__ import annotations

import datetime
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

import trio

from tandem.actors.documents import Current
from tandem.actors.kit import ActorGone
from tandem.conductor.documents import Documents
from tandem.conductor.masking.mask import SecretMask, secret_mask
from tandem.conductor.router.facts import AskedThinking, Facts
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.placing import Placed, place
from tandem.conductor.router.plan import NO_EFFECTS, Effects, Plan, PlanRefused, Question
from tandem.conductor.router.planner import Planner
from tandem.conductor.router.prepare import Prepared, prepare
from tandem.conductor.sessions import SessionFacts, SessionView, session_key
from tandem.engine.errors import BadInput
from tandem.engine.text.images import LoadedImages
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tandem.http.asking import ask
from tandem.http.context import Context
from tandem.http.endpoint import Endpoint
from tandem.http.openai import errors
from tandem.http.openai.requests import ChatRequest, Request, resolve_limit
from tandem.http.openai.thinking import Budget
from tandem.http.openai.tools import Named
from tandem.http.record import RequestRecord

__all__ = ["LONG_BODY_BYTES", "Planned", "Planning", "applied", "asked_thinking"]

log = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=Request)
T = TypeVar("T")

LONG_PROMPT_BYTES = 8_000
"""Above this, rendering and tokenising may take over 5 ms and goes to a worker thread (SCH-113)."""
LONG_BODY_BYTES = 1_000_000
"""Above this, so does decoding the body."""
NO_CONVERSATION = Conversation(messages=())


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
    """What planning took, its questions included."""


class Planning(Generic[RequestT]):
    """One request's. `size` is its body's in bytes."""

    def __init__(
        self,
        here: Context,
        endpoint: Endpoint[RequestT],
        record: RequestRecord,
        request: RequestT,
        size: int,
        images: LoadedImages,
    ) -> None:
        self._here = here
        self._endpoint = endpoint
        self._record = record
        self._request = request
        self._size = size
        self._images = images
        self._is_long = size > LONG_PROMPT_BYTES or bool(images.pictures)

    async def planned(self) -> Planned:
        """Raises `ApiError`."""
        documents = await self._documents()
        if documents is None or self._here.kit is None:
            return await self._raw()
        started = trio.current_time()
        kit = self._kit(self._here.kit)
        prepared = await self._prepared(kit, documents)
        self._record.mode, self._record.profile = prepared.resolution.mode, prepared.resolution.name
        session = self._here.sessions.open(prepared.session)
        self._record.session = session.key
        prompt = await self._rendered(session, prepared)
        limit = self._limit(prompt)
        plan = await self._plan(kit, prepared, session, prompt)
        placed = await self._run(self._is_long, place, kit, plan, prompt, self._here.card.max_len - 1 - len(prompt.ids))
        placed = self._fitting(placed, prompt)
        if placed.delta is not None:
            self._here.sessions.commit(session, placed.delta)
        return Planned(
            prompt=placed.prompt,
            limit=self._within(limit, placed.prompt, plan.effects),
            effects=plan.effects,
            mask=await self._mask(plan.effects),
            is_side=plan.turn == "side" if plan.mode == "on" else None,
            plan=plan,
            prepared=prepared,
            placed=placed,
            documents=documents,
            ms=1e3 * (trio.current_time() - started),
        )

    async def _raw(self) -> Planned:
        key = await self._key()
        session = self._here.sessions.open(SessionFacts(key=key, today=self._today()))
        self._record.session = key
        prompt = await self._rendered(session, None)
        return Planned(prompt=prompt, limit=self._limit(prompt))

    async def _documents(self) -> Documents | None:
        """Those in use; None without a conductor, and where their actor has ended, which leaves the raw path."""
        if self._here.documents is None:
            return None
        try:
            return await self._here.documents.ask(Current)
        except ActorGone:
            log.error("[conductor] the documents' actor has ended: %s is served raw", self._record.request_id)
            return None

    def _kit(self, kit: Kit) -> Kit:
        """With the address by which packages name the server (ADR-002)."""
        return replace(kit, url=self._here.settings.url or self._record.address)

    async def _key(self) -> str:
        endpoint, request = self._endpoint, self._request
        urls = [ref.url for ref in endpoint.images(request)]
        given = self._record.headers, endpoint.session_ids(request), endpoint.messages(request), urls
        return await self._run(self._size > LONG_BODY_BYTES, session_key, *given)

    async def _prepared(self, kit: Kit, documents: Documents) -> Prepared:
        try:
            return await self._run(self._is_long, prepare, kit, self._facts(), documents)
        except PlanRefused as refused:
            raise errors.invalid(refused.param, refused.message) from None

    async def _rendered(self, session: SessionView, prepared: Prepared | None) -> Prompt:
        """The prompt of the client's messages; a plan that is on moves the directory out of the tools (FIT-001)."""
        endpoint, request = self._endpoint, self._request
        conversation = endpoint.conversation(request, session.first_date, self._images)
        kept = endpoint.conversation(request, session.first_date)
        if conversation is not None and kept is not None and prepared is not None and prepared.moves:
            conversation = replace(conversation, tools=prepared.conversation.tools)
            kept = replace(kept, tools=prepared.conversation.tools)
        self._record.conversation = kept
        try:
            return await self._run(self._is_long, endpoint.prompt, request, self._here, conversation)
        except BadInput as error:
            raise errors.from_bad_input(error) from error

    def _limit(self, prompt: Prompt) -> int:
        return resolve_limit(
            self._request.limit,
            self._here.settings.default_max_tokens,
            prompt.client_tokens,
            self._here.card.max_len,
            self._endpoint.prompt_field,
        )

    async def _plan(self, kit: Kit, prepared: Prepared, session: SessionView, prompt: Prompt) -> Plan:
        planner = Planner(kit, prepared, session, prompt_tokens=prompt.client_tokens)
        step = await self._run(self._is_long, planner.next)
        while isinstance(step, Question):
            answer = await ask(self._here, step)
            step = await self._run(self._is_long, planner.next, answer)
        return step

    def _fitting(self, placed: Placed, prompt: Prompt) -> Placed:
        """Nothing that is put into a prompt may leave no room for an answer (NOTE-012)."""
        if len(placed.prompt.ids) < self._here.card.max_len:
            return placed
        return replace(placed, prompt=prompt, notes=(), marks=(*placed.marks, "note.window"))

    def _within(self, limit: int, prompt: Prompt, effects: Effects) -> int:
        """The output that fits beside hidden tokens too; a side request's is short."""
        room = self._here.card.max_len - len(prompt.ids)
        return min(limit, room, limit if effects.limit is None else effects.limit)

    async def _mask(self, effects: Effects) -> SecretMask | None:
        if effects.secret_mask == "off":
            return None
        work = partial(secret_mask, shadow=effects.secret_mask == "shadow")
        return await self._run(self._is_long, work, self._here.secrets, self._endpoint.messages(self._request))

    def _facts(self) -> Facts:
        request, endpoint, record = self._request, self._endpoint, self._record
        conversation = endpoint.conversation(request, self._today())
        facts = Facts(
            kind=record.kind,
            conversation=conversation or NO_CONVERSATION,
            today=self._today(),
            now=self._here.wall.now().timestamp(),
            headers=record.headers,
            session_ids=endpoint.session_ids(request),
            images=[ref.url for ref in endpoint.images(request)],
            client=record.client_id,
            limit=request.limit,
            sampling=request.sampled,
            seed=secrets.randbits(63),
            ngram=request.rules.no_repeat_ngram,
            is_text=conversation is None,
        )
        if not isinstance(request, ChatRequest):
            return facts
        choice = "named" if isinstance(request.tool_choice, Named) else request.tool_choice
        return replace(facts, tool_choice=choice, thinking=asked_thinking(request.budget))

    def _today(self) -> datetime.date:
        return self._here.wall.now().date()

    async def _run(self, is_long: bool, work: Callable[..., T], *args: object) -> T:
        return await self._here.blocking.run("prompt", work, *args) if is_long else work(*args)


def applied(request: RequestT, effects: Effects) -> RequestT:
    """The request as its plan has it sampled and capped; itself where the plan leaves that alone."""
    rules, sampling = request.rules, effects.sampling
    if sampling.rules:
        rules = replace(rules, **sampling.rules)
    if effects.drop_ngram:
        rules = replace(rules, no_repeat_ngram=0)
    if rules is not request.rules:
        request = replace(request, rules=rules)
    if effects.decides_cap and isinstance(request, ChatRequest):
        request = replace(request, budget=replace(request.budget, cap=effects.cap))
    return request


def asked_thinking(budget: Budget) -> AskedThinking:
    """What a client says of thinking, as the planner reads it."""
    number = budget.value if budget.kind == "number" and isinstance(budget.value, int) else None
    word = budget.value.lower() if budget.kind == "word" and isinstance(budget.value, str) else None
    return AskedThinking(enabled=budget.enabled, switch=budget.switch, number=number, word=word)
