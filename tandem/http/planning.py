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
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

import trio

from tandem.actors.documents import Current
from tandem.actors.kit import ActorGone
from tandem.conductor.documents import Documents, Mode
from tandem.conductor.masking.mask import SecretMask, secret_mask
from tandem.conductor.monitor.stopped_calls import cut_history
from tandem.conductor.router.facts import Facts
from tandem.conductor.router.inside import asked_inside
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.placing import Placed, place
from tandem.conductor.router.plan import Answer, Effects, Plan, PlanRefused, Question
from tandem.conductor.router.planner import Planner
from tandem.conductor.router.prepare import Prepared, prepare
from tandem.conductor.router.resolution import asked_mode
from tandem.conductor.sessions import SessionFacts, SessionView, session_key
from tandem.engine.errors import BadInput
from tandem.engine.text.images import LoadedImages
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tandem.http.asking import ask
from tandem.http.context import Context
from tandem.http.endpoint import Endpoint
from tandem.http.entry import NOTES_MOST
from tandem.http.openai import errors
from tandem.http.openai.requests import ChatRequest, Request, resolve_limit
from tandem.http.openai.tools import Named
from tandem.http.planned import Begun, Inside, Planned
from tandem.http.record import RequestRecord
from tandem.http.supervision import alone, asked_thinking, request_event, under_plan

__all__ = ["LONG_BODY_BYTES", "LONG_PROMPT_BYTES", "Planning"]

log = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=Request)
T = TypeVar("T")

LONG_PROMPT_BYTES = 8_000
"""Above this, cleaning, rendering and tokenising may take over 5 ms and go to a worker thread (SCH-113)."""
LONG_BODY_BYTES = 1_000_000
"""Above this, so does decoding the body."""
NOT_RUN = "engine_context_not_run"
NO_CONVERSATION = Conversation(messages=())


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
        self._begun: Begun | None = None
        self._ms = 0.0

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
        prompt = await self._rendered(session, prepared, prepared.marker)
        self._begun = begun = Begun(
            documents=documents,
            kit=kit,
            prepared=prepared,
            session=session,
            prompt=prompt,
            limit=self._limit(prompt),
            planner=Planner(kit, prepared, session, prompt_tokens=prompt.client_tokens),
        )
        step = await self._asked(begun)
        if isinstance(step, Question) and (inside := await self._inside(begun, step)) is not None:
            effects = Effects(under_plan=prepared.resolution.mode == "on")
            self._ms = 1e3 * (trio.current_time() - started)
            is_side = False if effects.under_plan else None
            known = Planned(prompt=prompt, limit=begun.limit, effects=effects, is_side=is_side, inside=inside)
            return replace(known, prepared=prepared, documents=documents)
        plan = await self._decided(begun, Answer(error=NOT_RUN)) if isinstance(step, Question) else step
        return await self._placed(begun, plan, self._here.card.max_len - 1 - len(prompt.ids), started)

    async def decided(self, inside: Inside, answer: Answer) -> Planned:
        """The plan, now that the question inside the conversation has its answer (or none)."""
        assert self._begun is not None
        begun, started = self._begun, trio.current_time()
        plan = await self._decided(begun, answer)
        # Nothing may be put in that the slot was not chosen for (SCH-050).
        room = min(self._here.card.max_len - 1, len(inside.asked.prompt.ids) + NOTES_MOST) - len(begun.prompt.ids)
        return await self._placed(begun, plan, room, started)

    def not_run(self) -> Planned:
        """For the row of a request that ended before its question was answered (SCH-025); no session learns of it."""
        assert self._begun is not None
        begun = self._begun
        step = begun.planner.next(Answer(error=NOT_RUN))
        while isinstance(step, Question):
            step = begun.planner.next(Answer(error=NOT_RUN))
        placed = Placed(begun.prompt)
        return Planned(
            prompt=begun.prompt, limit=begun.limit, plan=step, prepared=begun.prepared, placed=placed, ms=self._ms
        )

    async def _placed(self, begun: Begun, plan: Plan, room: int, started: float) -> Planned:
        prompt, prepared = begun.prompt, begun.prepared
        placed = await self._run(self._is_long, place, begun.kit, plan, prompt, room)
        placed = self._fitting(placed, prompt)
        asked = request_event(self._here, self._record, self._endpoint, self._request, placed.prompt, begun.limit)
        monitoring, placed = await under_plan(
            self._here, self._record, asked, begun, plan, placed, room, is_long=self._is_long
        )
        if placed.delta is not None:
            self._here.sessions.commit(begun.session, placed.delta)
        return Planned(
            prompt=placed.prompt,
            limit=self._within(begun.limit, placed.prompt, plan.effects),
            effects=plan.effects,
            mask=await self._mask(plan.effects),
            is_side=plan.turn == "side" if plan.mode == "on" else None,
            plan=plan,
            prepared=prepared,
            placed=placed,
            documents=begun.documents,
            monitoring=monitoring,
            ms=self._ms + 1e3 * (trio.current_time() - started),
        )

    async def _raw(self) -> Planned:
        key = await self._key()
        session = self._here.sessions.open(SessionFacts(key=key, today=self._today()))
        self._record.session = key
        marker = None if self._here.documents is not None else self._marker(asked_mode(self._record.headers))
        prompt = await self._rendered(session, None, marker)
        limit = self._limit(prompt)
        monitoring = None
        if self._here.monitor is not None and self._here.documents is None:
            asked = request_event(self._here, self._record, self._endpoint, self._request, prompt, limit)
            monitoring = await alone(self._here, self._record, asked, prompt, session, is_long=self._is_long)
        return Planned(prompt=prompt, limit=limit, monitoring=monitoring)

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
        """With the address by which packages name the server (ADR-002), and the policy's words against a repeat."""
        monitor = self._here.monitor
        sampling = kit.sampling if monitor is None else kit.sampling.under(monitor.policy.tasks)
        return replace(kit, url=self._here.settings.url or self._record.address, sampling=sampling)

    async def _key(self) -> str:
        endpoint, request = self._endpoint, self._request
        urls = [ref.url for ref in endpoint.images(request)]
        given = self._record.headers, endpoint.session_ids(request), endpoint.messages(request), urls
        return await self._run(self._size > LONG_BODY_BYTES, session_key, *given)

    async def _prepared(self, kit: Kit, documents: Documents) -> Prepared:
        try:
            return await self._run(self._is_long, prepare, kit, self._facts(), documents, self._marker("on"))
        except PlanRefused as refused:
            raise errors.invalid(refused.param, refused.message) from None

    def _marker(self, mode: Mode) -> str | None:
        """What stands for a repetition that the history cut takes out of the messages; None where it takes none."""
        monitor = self._here.monitor
        return None if monitor is None else monitor.marker(mode, self._request.n)

    async def _rendered(self, session: SessionView, prepared: Prepared | None, marker: str | None) -> Prompt:
        """The prompt of the client's messages, endless calls cut down (MON-112); a plan that is on moves the directory
        out of the tools (FIT-001).
        """
        endpoint, request = self._endpoint, self._request
        conversation = endpoint.conversation(request, session.first_date, self._images)
        kept = endpoint.conversation(request, session.first_date)
        if conversation is not None and kept is not None and prepared is not None and prepared.moves:
            conversation = replace(conversation, tools=prepared.conversation.tools)
            kept = replace(kept, tools=prepared.conversation.tools)
        if marker is not None and conversation is not None and kept is not None:
            conversation = await self._run(self._is_long, _cut, conversation, marker)
            kept = await self._run(self._is_long, _cut, kept, marker)
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

    async def _asked(self, begun: Begun) -> Plan | Question:
        """The plan, or the question that only the request's own slot can answer."""
        planner = begun.planner
        step = await self._run(self._is_long, planner.next)
        while isinstance(step, Question) and not step.under_grant:
            answer = await ask(self._here, step)
            step = await self._run(self._is_long, planner.next, answer)
        return step

    async def _inside(self, begun: Begun, question: Question) -> Inside | None:
        given = begun.kit, self._here.text, begun.prepared, begun.session, question, begun.prompt
        asked = await self._run(self._is_long, asked_inside, *given, self._here.card.max_len)
        return None if asked is None else Inside(question, asked)

    async def _decided(self, begun: Begun, answer: Answer) -> Plan:
        """Under the grant nothing more is asked: it would wait for its own holder (RTR-023)."""
        step = await self._run(self._is_long, begun.planner.next, answer)
        while isinstance(step, Question):
            step = await self._run(self._is_long, begun.planner.next, Answer(error="under_grant"))
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


def _cut(conversation: Conversation, marker: str) -> Conversation:
    return replace(conversation, messages=cut_history(conversation.messages, marker)[0])
