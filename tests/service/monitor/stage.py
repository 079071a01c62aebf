"""A service in which every task of the monitor acts, requests to it, and what came of them: bytes and rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tandem.actors.store import Flush
from tandem.conductor.monitor.policy import shipped_body
from tests.conductor.monitor.calling import declare
from tests.service.harness import Call, Harness, fake, open_harness
from tests.service.test_plan import CHAT, profile, put

__all__ = ["BACKSTOP", "CODE", "QUICK", "SYSTEM", "TOOLS", "Row", "open_stage", "row_of", "rows", "send", "words"]

CODE = {"code_edit": 0.9}
BACKSTOP = 200
QUICK: Mapping[str, Mapping[str, Any]] = {
    "D1": {"min_tokens": 128, "every": 16, "period": {"window": 64, "unit": 16, "copies": 4}},
    "D2": {"max_tokens": BACKSTOP},
    "D3": {"first": 256, "form": {"tokens": 256, "copies": 6, "longest": 4_096}},
    "A1": {"first": 256, "forms": [{"tokens": 256, "copies": 6, "longest": 4_096}]},
}
"""Thresholds for which little has to be written."""
SURE = {"claim_at": 0.4, "admit_at": 0.4}
"""E2's: one choice of a script answers both of its questions."""
SYSTEM = {"role": "system", "content": "Keep PROGRESS.yaml.\nWorking directory: /home/a/proj"}
TOOLS = [
    declare("bash", "command"),
    declare("write", "path", "content"),
    declare("send", "to", "body"),
]
PACKS = ("risk", "project", "same_call", "malformed", "sequence")
TASKS = ("E2", "C1", "C2", "C3", "C4", "C5", "S1", "S2", "S4")
"""Those that are off where a profile does not name them."""
SESSIONS = map(str, itertools.count())
Row = tuple[str, str | None, str]
"""What was due, what was done, and why."""


def words(count: int, start: int = 0) -> str:
    """So many words, none of them twice."""
    return "".join(
        f"{chr(97 + at % 26)}{chr(97 + at // 26 % 26)}{chr(97 + at // 676)} " for at in range(start, start + count)
    )


def policy_file(folder: Path, params: Mapping[str, Mapping[str, Any]]) -> Path:
    """The shipped policy with every task at `act`, and these parameters of tasks."""
    body = shipped_body()
    tasks = [{**task, "mode": "act", **{"E2": SURE, **params}.get(task["id"], {})} for task in body["tasks"]]
    path = folder / "policy.yaml"
    path.write_text(json.dumps({**body, "tasks": tasks}), encoding="utf-8")
    return path


@asynccontextmanager
async def open_stage(
    folder: Path, *, params: Mapping[str, Mapping[str, Any]] = QUICK, **settings: Any
) -> AsyncIterator[Harness]:
    """A service with a router whose profile `coding` lets all of them act, without state lines."""
    given = {"conductor_config": folder / "conductor", "conductor_policy": policy_file(folder, params)}
    async with open_harness(**{**given, **settings}) as harness:
        document = await profile(harness, "coding")
        document |= {
            "toolgate": dict.fromkeys(PACKS, "on"),
            "tasks": {**document["tasks"], **{task: {"mode": "act"} for task in TASKS}},
            "ui": {**document["ui"], "states": "off"},
        }
        await put(harness, "profiles/coding", document)
        yield harness


async def send(
    harness: Harness,
    script: Mapping[str, Any],
    *before: Mapping[str, Any],
    mode: str = "on",
    session: str | None = None,
    rounds: int | None = None,
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> Call:
    """One request: a user's message with the script, and `before` behind it; a session of its own if none is named.

    The message is the same one in all requests for which it names as many `rounds`.
    """
    script = {"choose": CODE, **script}
    turns = sum(message["role"] == "assistant" for message in before) if rounds is None else rounds
    user = {"role": "user", "content": f"Do it. {fake(**script, turns=[script] * turns)}"}
    body = {"model": "M", "messages": [SYSTEM, user, *before], "tools": TOOLS, **fields}
    told = {
        "x-tandem": mode,
        "x-tandem-profile": "coding",
        "x-session-id": next(SESSIONS) if session is None else session,
        **(headers or {}),
    }
    call = await harness.client.send(CHAT, body, headers=told)
    assert call.status == 200, call.body
    return call


async def rows(harness: Harness, call: Call) -> list[dict[str, Any]]:
    """The monitor's rows of a request, oldest first."""
    await harness.service.context.store.ask(Flush)
    path = f"/v1/conductor/events?kind=monitor&request_id={call.headers['x-request-id']}&limit=100"
    found = await harness.client.send(path)
    assert found.status == 200, found.body
    return list(reversed(found.json["events"]))


def row_of(found: Sequence[Mapping[str, Any]], task: str) -> list[Row]:
    """A task's rows."""
    return [(row["decision"], row["action"], row["reason"]) for row in found if row["task"] == task]
