"""GET /v1/conductor/watch: how each session that the monitor remembers stands (MON-132)."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, Response, request

from tandem.conductor.monitor.policy import Policy
from tandem.conductor.monitor.watch import sighting
from tandem.conductor.sessions import SessionState
from tandem.http.context import context
from tandem.http.openai import errors
from tandem.http.query import Parameters
from tandem.http.responses import data_response

__all__ = ["blueprint"]

blueprint = Blueprint("watch", __name__)


@blueprint.get("/v1/conductor/watch")
async def watch() -> Response:
    here = context()
    if here.settings.conductor_config is None:
        raise errors.no_conductor(request.path)
    Parameters(request.args).end()
    if here.monitor is None:
        return data_response({"sessions": []})
    policy, now = here.monitor.policy, here.wall.now().timestamp()
    found = [state for state in here.sessions.states() if state.view.monitor.asked_at is not None]
    return data_response({"sessions": [_session(policy, state, now) for state in reversed(found)]})


def _session(policy: Policy, state: SessionState, now: float) -> dict[str, Any]:
    seen = sighting(policy, state.view.monitor, now)
    return {
        "key": state.view.key,
        "client_kind": state.client.rpartition("|")[2],
        "gates": seen.gates,
        "compaction": seen.compaction,
        "progress": seen.progress,
        "client": seen.client,
        "push": seen.push,
    }
