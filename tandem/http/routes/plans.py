"""What planning decides, shown: the test box, and what a session's model has read that its client did not send
(PRF-019, NOTE-011, OBS-112).

Without --conductor-config there is no conductor, and none of these routes.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import trio
from quart import Blueprint, Response, request

from tandem.conductor.documents import Documents
from tandem.conductor.router.facts import Facts
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.plan import Plan, PlanRefused, Question
from tandem.conductor.router.planner import Planner
from tandem.conductor.router.prepare import Prepared, prepare
from tandem.conductor.sessions import SessionView
from tandem.engine.errors import BadInput
from tandem.engine.text.model import Conversation
from tandem.http.actors import current_documents
from tandem.http.asking import ask
from tandem.http.body import read_fields
from tandem.http.context import Context, context
from tandem.http.export import as_json, as_markdown
from tandem.http.openai import errors
from tandem.http.openai.checks import as_str
from tandem.http.openai.plan_shapes import TEXT_CHARS, ConductorTest, PartShown, StageShown
from tandem.http.query import Parameters
from tandem.http.reading import read
from tandem.http.record import address_of
from tandem.http.responses import CONTRACT_VERSION, data_response, json_response
from tandem.store.journal_reads import export_query

__all__ = ["blueprint"]

blueprint = Blueprint("plans", __name__)

BODY_BYTES = 8 * 1024 * 1024
"""More than any text that is taken has, however JSON writes it."""
FORMATS = ("md", "json")


@blueprint.post("/v1/conductor/test")
async def test() -> Response:
    """Nothing is generated, and no session knows of it."""
    here, kit, documents = await _start()
    kit = replace(
        kit, url=here.settings.url or address_of({name.lower(): value for name, value in request.headers.items()})
    )
    text, profile = await _asked()
    started = trio.current_time()
    headers = {} if profile is None else {"x-tandem-profile": profile}
    today = here.wall.now().date()
    conversation = Conversation(messages=({"role": "user", "content": text},), today=today)
    facts = Facts(kind="anon", conversation=conversation, today=today, headers=headers)
    try:
        prepared = await here.blocking.run("prompt", prepare, kit, facts, documents)
        prompt = await here.blocking.run("prompt", here.text.render, conversation)
    except PlanRefused as refused:
        raise errors.invalid("profile", refused.message) from None
    except BadInput as error:
        raise errors.invalid("text", str(error)) from None
    session = SessionView(key="test", first_date=today)
    planner = Planner(kit, prepared, session, prompt_tokens=prompt.client_tokens, inside=False)
    step = await here.blocking.run("prompt", planner.next)
    while isinstance(step, Question):
        step = await here.blocking.run("prompt", planner.next, await ask(here, step))
    shown = _shown(prepared, step, 1e3 * (trio.current_time() - started))
    return json_response(msgspec.json.encode(shown), {"Cache-Control": "no-store"})


@blueprint.get("/v1/conductor/sessions/<path:key>/export")
async def export(key: str) -> Response:
    """Hidden text is shown here alone, to whoever may administer."""
    here, _, _ = await _start()
    parameters = Parameters(request.args)
    wanted = parameters.text("format") or "md"
    parameters.end()
    if wanted not in FORMATS:
        raise errors.invalid("format", "format must be md or json")
    found = await read(here, export_query(key))
    if found is None:
        raise errors.ApiError(404, "the journal has no row of this session")
    if wanted == "json":
        return data_response(as_json(key, found))
    written = await here.blocking.run("usage", as_markdown, key, found)
    answer = Response(written, content_type="text/markdown; charset=utf-8")
    answer.headers["Cache-Control"] = "no-store"
    return answer


async def _start() -> tuple[Context, Kit, Documents]:
    here = context()
    documents = await current_documents()
    if here.kit is None:
        raise errors.no_conductor(request.path)
    return here, here.kit, documents


async def _asked() -> tuple[str, str | None]:
    with context().bodies.hold() as hold:
        body = await read_fields(hold, BODY_BYTES, "text", "profile")
    text = as_str(body.get("text"), "text")
    if not text or len(text) > TEXT_CHARS:
        raise errors.invalid("text", f"text must have 1 to {TEXT_CHARS} characters")
    return text, as_str(body.get("profile"), "profile")


def _shown(prepared: Prepared, plan: Plan, ms: float) -> ConductorTest:
    decided, effort = plan.class_decision, plan.effort
    shown = ConductorTest(
        contract_version=CONTRACT_VERSION,
        profile=prepared.resolution.name,
        mode=plan.mode,
        turn=plan.turn,
        extra=dict(plan.row.extra) if plan.row is not None else {},
        ms=round(ms, 3),
    )
    if decided is not None:
        shown.class_, shown.confidence, shown.source = decided.class_id, decided.confidence, decided.source
        shown.kept, shown.digest = decided.kept, decided.digest
        shown.stages = [
            StageShown(
                stage=each.stage,
                label=each.label,
                confidence=each.confidence,
                probabilities=dict(each.probabilities),
                ms=each.ms,
                error=each.error,
                guard=each.guard,
            )
            for each in decided.stages
        ]
    if effort is not None:
        shown.effort, shown.thinking, shown.budget, shown.size = effort.level, effort.thinking, effort.cap, effort.size
    if (note := plan.effects.note) is not None:
        shown.note = [PartShown(kind=part.kind, name=part.name, text=part.text) for part in note.parts]
        shown.note_tokens = note.tokens
    return shown
