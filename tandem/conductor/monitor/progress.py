"""How far a session's work has come: what each request adds to it (MON-118, MON-121, MON-122, MON-132). Pure.

The calls that a request brings and the session did not know are added once, by their ids, so a request that is sent
again changes nothing. Of a result nothing but the lines of its gates is read, and nothing of it kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

from tandem.conductor.monitor.call_runs import Made, calls_made, hashed
from tandem.conductor.monitor.events import RequestEvent
from tandem.conductor.monitor.state import Gate, Monitored, Progress, ProgressKind
from tandem.conductor.monitor.written import file_names, writes
from tandem.conductor.router.client_kind import ClientKind
from tandem.conductor.router.compaction import is_compaction
from tandem.conductor.router.history import Checker, checkers_in, object_in
from tandem.conductor.router.turns import text_of, user_messages

__all__ = ["asks_for_summary", "name_hash", "progressed"]

GATES: Final = 32
"""Gates of a session that are kept, those heard of last."""
FILES: Final = 256
"""Names of files that are kept from one compaction to the next."""


def asks_for_summary(req: RequestEvent) -> bool:
    """The request compacts its conversation: no work is done in it, and no note belongs there (MON-140)."""
    return is_compaction(req.messages, cast(ClientKind, req.client_kind), has_tools=bool(req.tools))


def name_hash(name: str) -> str:
    """How a file's name is kept."""
    return hashed(name.lower())


def progressed(known: Monitored, req: RequestEvent) -> Progress:
    """The session's progress with what the request tells."""
    progress = known.progress
    if asks_for_summary(req):
        return replace(progress, behind=False)
    progress, turn = _asked(progress, req)
    if req.compacted and not progress.behind:
        progress = replace(progress, compactions=progress.compactions + 1, steps=0, files=frozenset())
    progress = replace(progress, behind=req.compacted)
    for call in _new_calls(known, req):
        progress = _stepped(progress, call, req, in_turn=call.after_user >= turn)
    return progress


def _asked(progress: Progress, req: RequestEvent) -> tuple[Progress, int]:
    """With the newest user message, and how many messages of that role there are up to it.

    One that stays behind a compaction is the same, and one that says the same once more is not.
    """
    users = user_messages(req.messages)
    if not users:
        return progress, 0
    turn = sum(message["role"] == "user" for message in req.messages[: users[-1] + 1])
    said = hashed(text_of(req.messages[users[-1]]))
    if said == progress.user and len(users) <= progress.users:
        return replace(progress, users=len(users)), turn
    return replace(progress, user=said, users=len(users), user_at=req.now, wrote=False), turn


def _new_calls(known: Monitored, req: RequestEvent) -> Sequence[Made]:
    """Those with a result behind the newest whose result was known; oldest first."""
    made = calls_made(req.messages)
    had = {record.id for record in known.calls if record.result is not None}
    at = next((at for at in reversed(range(len(made))) if made[at].key in had), -1)
    return [call for call in made[at + 1 :] if call.has_result]


def _stepped(progress: Progress, call: Made, req: RequestEvent, *, in_turn: bool) -> Progress:
    """With one more call and what it brought."""
    arguments = object_in(call.arguments)
    progress = replace(progress, steps=progress.steps + 1)
    if writes(req.tools, call.tool, arguments):
        progress = replace(_forward(progress, "write", req.now), wrote=progress.wrote or in_turn)
    elif len(progress.files) < FILES:
        progress = replace(progress, files=progress.files | {name_hash(name) for name in file_names(arguments)})
    for reading in checkers_in({"content": call.result}):
        progress = _read(progress, reading, req.now)
    return progress


def _read(progress: Progress, reading: Checker, now: float) -> Progress:
    """With one line of a gate."""
    before = progress.gates.get(reading.name)
    gate = _after(before, reading)
    others = {name: each for name, each in progress.gates.items() if name != reading.name}
    progress = replace(progress, gates=dict([*others.items(), (reading.name, gate)][-GATES:]))
    if gate.verdict == "PASS":
        return _forward(progress, "pass", now)
    is_better = before is not None and before.verdict == "FAIL" and gate.run > before.run
    return _forward(progress, "better", now) if is_better else progress


def _after(before: Gate | None, reading: Checker) -> Gate:
    run = 0 if before is None else before.run + 1
    if reading.verdict == "PASS":
        return Gate(verdict="PASS", value=0, run=run)
    value = reading.named or None
    if before is None or before.verdict == "PASS":
        return Gate(verdict="FAIL", value=value, best=value, fails=1, run=run)
    if value is not None and before.best is not None and value < before.best:
        return Gate(verdict="FAIL", value=value, best=value, fails=1, run=run)
    best = value if before.best is None else before.best
    return Gate(verdict="FAIL", value=value, best=best, fails=before.fails + 1, run=before.run)


def _forward(progress: Progress, kind: ProgressKind, now: float) -> Progress:
    return replace(progress, kind=kind, at=now)
