"""GET /v1/cache/stats and POST /v1/cache/clear (API-062, API-063)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from quart import Blueprint, Response, request

from tandem.actors.keeper import Clear, Cleared
from tandem.actors.queue import Refused
from tandem.http import facts
from tandem.http.actors import answer_of
from tandem.http.body import read_body
from tandem.http.context import SERVED_NAME, Context, context
from tandem.http.openai import errors
from tandem.http.openai.decode import decode_body
from tandem.http.openai.errors import ApiError, invalid
from tandem.http.query import Parameters
from tandem.http.responses import json_response

__all__ = ["blueprint", "clear_engine"]

blueprint = Blueprint("cache", __name__)

BODY_BYTES = 64 * 1024
"""More than all names there are."""
NOT_NOW = {"queue_full": errors.queue_full, "draining": errors.draining, "busy": errors.busy}


@blueprint.get("/v1/cache/stats")
async def stats() -> Response:
    Parameters(request.args).end()
    here = context()
    return _answer({"model": SERVED_NAME, "base_model": here.card.name, "caches": facts.cache_list(here)})


@blueprint.post("/v1/cache/clear")
async def clear() -> Response:
    here = context()
    names = _names(await _read(here), list(facts.cache_stats(here)))
    freed = await clear_engine(here, [name for name in names if name != facts.RESPONSE])
    if here.responses is not None and facts.RESPONSE in names:
        freed[facts.RESPONSE] = here.responses.clear()
    return _answer({"freed_bytes": freed})


async def _read(here: Context) -> dict[str, Any]:
    with here.bodies.hold() as hold:
        raw = await read_body(hold, BODY_BYTES)
    return decode_body(raw) if raw.strip() else {}


def _names(body: dict[str, Any], there: Sequence[str]) -> list[str]:
    """The caches that are meant: those that are named, or all there are."""
    names = body.get("caches")
    if names is None:
        return list(there)
    if not isinstance(names, list):
        raise invalid("caches", "caches must be a list of names")
    for at, name in enumerate(names):
        if name not in there:
            raise invalid(f"caches[{at}]", f"there is no such cache; on are {', '.join(there) or 'none'}")
    return list(dict.fromkeys(names))


async def clear_engine(here: Context, names: Sequence[str]) -> dict[str, int]:
    """Bytes given up by each; waits for the generation that runs."""
    if not names:
        return {}
    answer: Cleared | Refused = await answer_of(here.keeper, lambda reply: Clear(tuple(names), reply))
    if isinstance(answer, Refused):
        raise _refused(answer.code)
    return dict(answer.freed)


def _refused(code: str) -> ApiError:
    """The refusal of a clear, by the code that the keeper gave."""
    refuse = NOT_NOW.get(code)
    return errors.internal() if refuse is None else refuse()


def _answer(body: dict[str, Any]) -> Response:
    return json_response(msgspec.json.encode(body), {"Cache-Control": "no-store"})
