"""How a planned request comes under the monitor: what it is told of the request, and what SP4 puts into the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tandem.conductor.documents import Mode, Profile
from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import RequestEvent
from tandem.conductor.monitor.supervisor import Supervisor
from tandem.conductor.router.compaction import is_compaction
from tandem.conductor.router.facts import AskedThinking
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.placing import Placed, has_place, noted_behind, place_behind
from tandem.conductor.router.plan import Plan
from tandem.conductor.router.resolution import asked_mode
from tandem.conductor.sessions import SessionFacts, SessionView
from tandem.conductor.sessions.keys import HEAD_PREFIX
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.splicing import close_thinking
from tandem.http.context import Context
from tandem.http.endpoint import Endpoint
from tandem.http.monitoring import Monitoring, Whose, fault, planned_facts, tell_events
from tandem.http.openai.requests import ChatRequest, Request
from tandem.http.openai.thinking import Budget
from tandem.http.openai.tools import Named
from tandem.http.planned import Begun
from tandem.http.record import RequestRecord

__all__ = ["alone", "asked_thinking", "request_event", "under_plan"]


def request_event(
    here: Context, record: RequestRecord, endpoint: Endpoint[Any], request: Request, prompt: Prompt, limit: int
) -> RequestEvent:
    """What the monitor is told of the request; its messages are those that were rendered."""
    conversation = record.conversation
    event = RequestEvent(
        messages=() if conversation is None else conversation.messages,
        tools=() if conversation is None else conversation.tools,
        n=request.n,
        prompt_tokens=len(prompt.ids),
        in_think=prompt.thinking != "off",
        max_tokens=limit,
        client_kind=record.kind,
        constrained=request.constraint is not None,
        logprobs=request.rules.logprobs is not None,
        live=request.is_live,
        profile=record.profile,
        now=here.wall.now().timestamp(),
    )
    if not isinstance(request, ChatRequest):
        return event
    thinking = asked_thinking(request.budget)
    return replace(
        event,
        tool_choice="named" if isinstance(request.tool_choice, Named) else request.tool_choice,
        client_budget=thinking.number,
        client_thinking_off=thinking.enabled is False,
        single_call=request.single_call,
    )


async def under_plan(
    here: Context,
    record: RequestRecord,
    asked: RequestEvent,
    begun: Begun,
    plan: Plan,
    placed: Placed,
    room: int,
    *,
    is_long: bool,
) -> tuple[Monitoring | None, Placed]:
    """The request under the monitor, and its prompt with what SP4 puts in (MON-034, MON-035).

    Side requests go by: they are short, have a cap of their own and no session. `room` is how many more tokens than
    those of the rendered prompt the window holds.
    """
    if plan.turn in ("side", "text"):
        return None, placed
    resolution = begun.prepared.resolution
    asked = replace(
        asked,
        **planned_facts(plan, begun.session),
        has_place=has_place(begun.kit, plan, placed),
        note_room=room + len(begun.prompt.ids) - len(placed.prompt.ids),
        noted=noted_behind(plan, placed),
    )
    monitoring = await _monitoring(
        here, record, asked, placed.prompt, begun.session, resolution.mode, resolution.profile, is_long=is_long
    )
    for act in () if monitoring is None else monitoring.acts:
        placed = _acted(begun.kit, plan, placed, act, room + len(begun.prompt.ids) - len(placed.prompt.ids))
    return monitoring, placed


async def alone(
    here: Context, record: RequestRecord, asked: RequestEvent, prompt: Prompt, session: SessionView, *, is_long: bool
) -> Monitoring | None:
    """The request under the monitor where there is no router; what `X-Tandem` answers is the monitor's mode."""
    assert here.monitor is not None
    mode = asked_mode(record.headers)
    record.mode = here.monitor.mode_for(mode, 1)
    if record.mode != "raw":
        session = _session_alone(here, record, session, prompt, asked)
    return await _monitoring(here, record, asked, prompt, session, mode, None, is_long=is_long)


async def _monitoring(
    here: Context,
    record: RequestRecord,
    asked: RequestEvent,
    prompt: Prompt,
    session: SessionView,
    mode: Mode,
    profile: Profile | None,
    *,
    is_long: bool,
) -> Monitoring | None:
    """None where nothing looks on: no monitor, mode raw, a text completion. A long history is read in a thread. Nor
    does anything where the monitor cannot begin: the request goes on without it (MON-012).
    """
    monitor = here.monitor
    if monitor is None or record.endpoint != "chat":
        return None
    lowest = monitor.mode_for(mode, asked.n)

    def begin() -> tuple[Supervisor, Sequence[Action]] | None:
        supervisor = monitor.begin(lowest, asked, prompt, session, profile=profile)
        return None if supervisor is None else (supervisor, supervisor.request())

    try:
        found = await here.blocking.run("prompt", begin) if is_long else begin()
    except Exception as error:
        whose = Whose(session=session.key, request_id=record.request_id, profile=record.profile, mode=lowest)
        tell_events(here, whose, [fault("SP4", lowest, error)])
        return None
    return None if found is None else Monitoring(here, record, *found, session)


def _acted(kit: Kit, plan: Plan, placed: Placed, act: Action, room: int) -> Placed:
    match act.kind:
        case "PROMPT_TAIL_NOTE" if act.text:
            noted = place_behind(kit, plan, placed, act.text, act.reason, room)
            return placed if noted is None else noted
        case "SET_THINK_BUDGET" if act.budget == 0:
            return replace(placed, prompt=close_thinking(placed.prompt, kit.openings))
        case _:
            return placed


def _session_alone(
    here: Context, record: RequestRecord, session: SessionView, prompt: Prompt, asked: RequestEvent
) -> SessionView:
    """`session` where the client named it; else the one that the beginning of the prompt tells."""
    if here.monitor is None or not session.key.startswith(HEAD_PREFIX):
        return session
    key = here.monitor.session_key(
        prompt,
        f"{record.client_id}|{record.kind}",
        here.wall.now().timestamp(),
        is_compaction=is_compaction(asked.messages, record.kind, has_tools=bool(asked.tools)),
    )
    record.session = key
    return here.sessions.open(SessionFacts(key=key, today=session.first_date))


def asked_thinking(budget: Budget) -> AskedThinking:
    """What a client says of thinking, as planner and monitor read it."""
    number = budget.value if budget.kind == "number" and isinstance(budget.value, int) else None
    word = budget.value.lower() if budget.kind == "word" and isinstance(budget.value, str) else None
    return AskedThinking(enabled=budget.enabled, switch=budget.switch, number=number, word=word)
