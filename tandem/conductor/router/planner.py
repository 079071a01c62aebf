"""The planner: everything that is decided about one request before it joins the queue (RTR-028). Sans-I/O.

    prepared = prepare(kit, facts, documents)
    session = sessions.open(prepared.session)
    prompt = text.render(prepared.conversation)
    planner = Planner(kit, prepared, session, prompt_tokens=prompt.client_tokens)
    step = planner.next()
    while isinstance(step, Question):
        step = planner.next(await asked(step))
    placed = place(kit, step, prompt)
    sessions.commit(session, placed.delta)

`prepare` reads the history, which is slow at first sight; `Planner` decides; `place` puts the notes into the prompt.
What it decides with are the functions of its neighbours. Here is their order, and what a kind of turn leaves out.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import cached_property

from tandem.conductor.monitor.stopped_calls import is_fresh_stop
from tandem.conductor.packages.choice import PackageChoice, settled
from tandem.conductor.packages.selection import Chosen, Offer, PackageDecision, decide, offer
from tandem.conductor.router.cascade import ClassCascade, ClassFacts
from tandem.conductor.router.deltas import begun
from tandem.conductor.router.draft import FRESH, Draft
from tandem.conductor.router.effects import effects_of
from tandem.conductor.router.effort import EffortFacts, decide_effort
from tandem.conductor.router.history import newest_checker, newest_round
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.notes import NO_NOTES, Carried, carry, live_notes
from tandem.conductor.router.parts import note_parts
from tandem.conductor.router.plan import Answer, ClassDecision, EffortDecision, Plan, Question, SideServing, TurnKind
from tandem.conductor.router.prepare import Prepared
from tandem.conductor.router.rows import router_row
from tandem.conductor.router.side_requests import serve_side
from tandem.conductor.router.size import grown
from tandem.conductor.router.stages import Decider
from tandem.conductor.router.turns import newest_text
from tandem.conductor.sampling import SamplingDecision, SamplingFacts, decide_sampling
from tandem.conductor.sessions import SessionView, SizeSignals

__all__ = ["Planner"]


class Planner:
    """One request's plan. `next()` first, then with each question's answer, until it gives the `Plan`."""

    def __init__(
        self,
        kit: Kit,
        prepared: Prepared,
        session: SessionView,
        *,
        prompt_tokens: int | None = None,
        decider: Decider | None = None,
        inside: bool = True,
    ) -> None:
        """`prompt_tokens` are the client's; `inside` is False for the test box, whose message has no conversation."""
        self._kit = kit
        self._prepared = prepared
        self._session = session
        self._prompt_tokens = prompt_tokens
        self._decider = decider
        self._inside = inside
        self._switches = prepared.resolution.switches
        self._turn: TurnKind = prepared.turn
        if prepared.turn == "user" and session.compacted:
            self._turn = "after_compaction"
        newest = prepared.digests.newest
        begun_before = (each for each in session.answered if each.digest == newest)
        self._repeated = next(begun_before, None) if self._turn in FRESH else None
        self._steps = self._plan()
        self._plan_made: Plan | None = None

    def next(self, answer: Answer | None = None) -> Question | Plan:
        """The next question, or the plan, for good."""
        if self._plan_made is not None:
            return self._plan_made
        try:
            # A generator that was not started yet takes nothing but None.
            return self._steps.send(answer)
        except StopIteration as end:
            plan: Plan = end.value
            self._plan_made = plan
            return plan

    def _plan(self) -> Generator[Question, Answer | None, Plan]:
        prepared = self._prepared
        if prepared.resolution.mode == "raw":
            return Plan(mode="raw", profile=prepared.resolution.name, turn=self._turn, session=self._session)
        if self._turn == "text":
            return self._finished(self._draft())
        if prepared.side is not None:
            facts = prepared.facts
            side = serve_side(prepared.side, limit=facts.limit, has_tokens=facts.thinking.has_tokens)
            return self._finished(self._draft(side=side))
        draft = self._draft()
        draft = replace(draft, class_decision=(yield from self._class()))
        draft = replace(draft, effort=self._effort(draft))
        draft = replace(draft, packages=(yield from self._packages(draft)))
        return self._finished(replace(draft, carried=self._carried(draft)))

    def _draft(self, side: SideServing | None = None) -> Draft:
        return Draft(
            kit=self._kit,
            prepared=self._prepared,
            session=self._session,
            size=self._size,
            turn=self._turn,
            switches=self._switches,
            repeated=self._repeated,
            side=side,
            sampling=self._sampling,
        )

    @cached_property
    def _sampling(self) -> SamplingDecision:
        prepared, session = self._prepared, self._session
        facts, profile = prepared.facts, prepared.resolution.profile.sampling
        wait_s = prepared.resolution.profile.tasks.C3.wait_s
        return decide_sampling(
            self._kit.sampling,
            SamplingFacts(
                messages=facts.messages,
                headers=facts.headers,
                kind=facts.kind,
                now=facts.now,
                offers_tools=facts.offers_tools,
                is_turn=self._turn not in ("side", "compaction", "text"),
                digest=prepared.digests.newest if self._turn in FRESH else None,
                asked=(*session.answered, *session.asked_before),
                client_params=facts.sampling,
                loop_escape=profile.loop_escape == "on",
                card=profile.agentic_default == "card",
                turn=session.turns + 1,
                escaping_since=session.escaping_since,
                seen=session.monitor,
                wait_s=self._kit.sampling.wait_s if wait_s is None else wait_s,
                seed=facts.seed,
            ),
        )

    @cached_property
    def _size(self) -> SizeSignals:
        """The task's size with this request; a side request and a compaction do not count (SES-011)."""
        signals, prepared = self._session.size, self._prepared
        if self._prompt_tokens is None or self._turn in ("side", "compaction", "text"):
            return signals
        return grown(signals, prepared.documents.router.effort.size, prepared.facts.messages, self._prompt_tokens)

    def _class(self) -> Generator[Question, Answer | None, ClassDecision | None]:
        prepared, switch = self._prepared, self._switches["classify"]
        profile = prepared.resolution.profile
        if switch == "off" and profile.routing.default_class is None and self._turn != "compaction":
            return None
        repeated = self._repeated
        if repeated is not None and prepared.documents.class_def(repeated.class_id or "") is not None:
            return ClassDecision(class_id=repeated.class_id or "", source="sticky", confidence=self._session.confidence)
        cascade = ClassCascade(
            ClassFacts(
                documents=prepared.documents,
                profile=profile,
                session=self._session,
                turn=self._turn,
                messages=prepared.facts.messages,
                asks=switch != "off" and self._kit.fit.questions,
                applies=self._draft().applies("classify"),
                inside=self._inside and not prepared.resolution.keeps_prompt,
                prompt_tokens=self._prompt_tokens,
                decider=self._decider,
            )
        )
        step = cascade.next(None)
        while isinstance(step, Question):
            step = cascade.next((yield step))
        return step

    @property
    def _has_stopped_call(self) -> bool:
        """The argument loop guard has stopped a call of this turn, or of the session's last answer (MON-115)."""
        return bool(self._prepared.stops) or is_fresh_stop(self._session.monitor)

    def _effort(self, draft: Draft) -> EffortDecision | None:
        decided, prepared = draft.class_decision, self._prepared
        if decided is None:
            return None
        _, results = newest_round(prepared.facts.messages)
        return decide_effort(
            EffortFacts(
                documents=prepared.documents,
                profile=prepared.resolution.profile,
                class_id=decided.class_id,
                turn=self._turn,
                asked=prepared.facts.thinking,
                decides=self._switches["effort"] != "off",
                applies=draft.applies("effort"),
                size=draft.size.size,
                checker=newest_checker(results),
                argloop_retry=prepared.facts.offers_tools and self._has_stopped_call,
                has_note=self._kit.fit.effort_note,
            )
        )

    def _packages(self, draft: Draft) -> Generator[Question, Answer | None, PackageDecision | None]:
        """Of a turn that a person begins; on any other the class block is live or gone for good (NOTE-006)."""
        decided, prepared, kit = draft.class_decision, self._prepared, self._kit
        if decided is None or self._switches["package"] == "off" or self._turn not in FRESH or draft.is_there:
            return None
        offered = offer(
            prepared.documents,
            prepared.resolution.profile,
            decided.class_id,
            prepared.facts.tools if prepared.facts.offers_tools else (),
            model=kit.fit,
            tool_fit=kit.tool_fit,
        )
        chosen = yield from self._package(offered, decided)
        return decide(offered, chosen, url=kit.url)

    def _package(self, offered: Offer, decided: ClassDecision) -> Generator[Question, Answer | None, Chosen | None]:
        prepared = self._prepared
        router = prepared.documents.router
        if not offered.options or router.package_question == "off" or not self._kit.fit.questions:
            return None
        kept = settled(router, offered, self._session, after_compaction=self._turn == "after_compaction")
        if kept is not None:
            return kept
        # Under the grant a question that needs a grant of its own would wait for its own holder (RTR-023).
        under_grant = any(stage.stage == "engine_context" for stage in decided.stages)
        choice = PackageChoice(router, offered, newest_text(prepared.facts.messages), () if under_grant else None)
        step = choice.next(None)
        while isinstance(step, Question):
            step = choice.next((yield step))
        return step

    def _carried(self, draft: Draft) -> Carried:
        """The live notes and this turn's new one; a compaction has none (SES-016)."""
        if self._turn == "compaction":
            return NO_NOTES
        live = live_notes(self._session.notes, frozenset(self._prepared.digests.places))
        parts = [] if self._turn == "assistant" else note_parts(draft)
        most = self._prepared.documents.router.injection.max_replay_tokens
        return carry(live, parts, most_tokens=most, encode=self._kit.encode, dedup=self._kit.dedup)

    def _finished(self, draft: Draft) -> Plan:
        effects, left_out = effects_of(draft)
        resolution = draft.prepared.resolution
        return Plan(
            mode=resolution.mode,
            profile=resolution.name,
            turn=draft.turn,
            session=draft.session,
            class_decision=draft.class_decision,
            effort=draft.effort,
            effects=effects,
            place=draft.prepared.digests.place,
            delta=begun(draft),
            row=router_row(draft, effects, left_out),
        )
