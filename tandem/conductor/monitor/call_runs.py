"""The calls of a conversation, what they brought, and the runs in which a turn ends (MON-087 to MON-092, MON-157,
MON-158). Pure.

Two calls are the same where tool and canonical arguments are; what a result says is not read: it is equal or it is not.
A run ends at a user's message, at an answer without calls, at a call that is not part of it, and at a wait. Runs are
told from the request's own messages, newest first, so a long history costs no more than a short one; only the times
come from the session.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from tandem.conductor.monitor.state import CALLS, CallRecord, Monitored
from tandem.conductor.tool_arguments import canonical

__all__ = [
    "REPEATS",
    "WAIT_S",
    "Made",
    "Run",
    "calls_made",
    "hashed",
    "near_run",
    "new_records",
    "pending_runs",
    "result_text",
    "returned",
    "turn_calls",
    "waited_s",
    "waits",
]

REPEATS: Final = 3
"""The call that would be this one's number is one too many, where no policy says otherwise."""
WAIT_S: Final = 10.0
"""A result that took this long was waited for, where no policy says otherwise."""
NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
SIZE: Final = 16


@dataclass(frozen=True, slots=True)
class Made:
    """A call in the messages."""

    key: str
    """Its id. Where an id comes again, `#2` and so on stand behind it."""
    tool: str
    arguments: Any
    has_result: bool
    result: Any
    """The content of its result's message."""
    round: int
    """Number of the assistant's message with it, from 0 on."""
    after_user: int
    """User messages before it."""

    def is_call(self, tool: str, arguments: Any) -> bool:
        """The same tool with the same arguments."""
        if self.tool != tool:
            return False
        return self.arguments == arguments or canonical(self.arguments) == canonical(arguments)

    def is_same(self, other: Made) -> bool:
        """The same call with the same result."""
        return self.result == other.result and self.is_call(other.tool, other.arguments)


@dataclass(frozen=True, slots=True)
class Run:
    """A run that one more call would complete or go on."""

    period: int
    length: int
    """Its calls, that one included."""
    next: Made
    """The call that it would be equal to."""
    unit: tuple[Made, ...]
    """One period, oldest first."""


class _Reading:
    """One way through the messages."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self._ids: Counter[str] = Counter()
        self._calls: Sequence[Mapping[str, Any]] = ()
        self._results: list[Mapping[str, Any]] = []
        self._rounds = self._users = 0

    def skip(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Count what comes before the messages that are read: a history is long, and a turn short (RTR-029)."""
        for message in messages:
            self._users += message.get("role") == "user"
            if calls := _calls_in(message):
                self._rounds += 1
                self._ids.update(str(call.get("id") or "") for call in calls)

    def read(self, messages: Sequence[Mapping[str, Any]]) -> None:
        for message in messages:
            role = message.get("role")
            if role == "tool":
                self._results.append(message)
            elif role not in ("system", "developer"):
                self._round()
                self._calls = _calls_in(message)
                self._users += role == "user"
        self._round()

    def _round(self) -> None:
        """What the newest message with calls and the results behind it come to."""
        if not self._calls:
            self._results = []
            return
        for call, result in zip(self._calls, _paired(self._calls, self._results), strict=True):
            function = call.get("function") or {}
            name = str(call.get("id") or "")
            self._ids[name] += 1
            self.made.append(
                Made(
                    key=name if self._ids[name] == 1 else f"{name}#{self._ids[name]}",
                    tool=str(function.get("name") or ""),
                    arguments=function.get("arguments"),
                    has_result=result is not None,
                    result=None if result is None else result.get("content"),
                    round=self._rounds,
                    after_user=self._users,
                )
            )
        self._rounds += 1
        self._results = []


def _calls_in(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (message.get("tool_calls") or ()) if message.get("role") == "assistant" else ()


def _ends_run(message: Mapping[str, Any]) -> bool:
    return message.get("role") not in ("tool", "system", "developer") and not _calls_in(message)


def _paired(
    calls: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any] | None]:
    """The result of each call, by its id; as they stand where the ids do not tell."""
    by_id = {result.get("tool_call_id"): result for result in results}
    if len(calls) == len(results) and not (len(by_id) == len(calls) and all(call.get("id") in by_id for call in calls)):
        return results
    return [by_id.get(call.get("id")) for call in calls]


def calls_made(messages: Sequence[Mapping[str, Any]]) -> list[Made]:
    """All calls of the conversation, oldest first."""
    reading = _Reading()
    reading.read(messages)
    return reading.made


def turn_calls(messages: Sequence[Mapping[str, Any]]) -> list[Made]:
    """Those behind the last message that ends a run, oldest first."""
    start = next((at + 1 for at in range(len(messages) - 1, -1, -1) if _ends_run(messages[at])), 0)
    reading = _Reading()
    reading.skip(messages[:start])
    reading.read(messages[start:])
    return reading.made


def returned(calls: Sequence[Made], waited: Collection[str] = ()) -> list[Made]:
    """Of a turn's calls the newest, newest first, back to one without a result or one that was a wait."""
    found: list[Made] = []
    for call in reversed(calls):
        if not call.has_result or call.key in waited:
            break
        found.append(call)
    return found


def pending_runs(done: Sequence[Made], repeats: int, cycle: int) -> Iterator[Run]:
    """The runs that `done`, newest first, would be with one more call, the shortest period first."""
    for period in range(1, min(cycle, len(done)) + 1):
        calls = repeats if period == 1 else 2 * period
        length = _matching(done, period) + period + 1
        # Of one call alone nothing matches yet: it is the run that lacks its second.
        if length >= calls and _is_primitive(done[:period]):
            yield Run(period, length, done[period - 1], tuple(reversed(done[:period])))


def _matching(done: Sequence[Made], period: int) -> int:
    """How many of the newest are the same as the one a period before."""
    count = 0
    while count + period < len(done) and done[count].is_same(done[count + period]):
        count += 1
    return count


def _is_primitive(unit: Sequence[Made]) -> bool:
    """It is no shorter unit several times over: A A is a run of A, and no cycle."""
    size = len(unit)
    return not any(
        size % part == 0
        and all(unit[at].is_call(unit[at + part].tool, unit[at + part].arguments) for at in range(size - part))
        for part in range(1, size // 2 + 1)
    )


def near_run(done: Sequence[Made]) -> list[str]:
    """Of the newest that differ in nothing but numbers and brought the same the canonical arguments (MON-158)."""
    run: list[str] = []
    form = _near_form(canonical(done[0].arguments)) if done else ""
    for call in done:
        if call.tool != done[0].tool or call.result != done[0].result:
            break
        arguments = canonical(call.arguments)
        if _near_form(arguments) != form:
            break
        run.append(arguments)
    return run


def _near_form(arguments: str) -> str:
    """Canonical arguments with every number replaced by one mark."""
    return NUMBER.sub("0", arguments)


def waits(calls: Sequence[Made], known: Monitored, now: float, wait_s: float) -> frozenset[str]:
    """Keys of the calls whose result came at least `wait_s` after the answer with the call had ended (MON-089)."""
    records = {record.id: record for record in known.calls}
    newest = calls[-1].round if calls else -1
    return frozenset(
        call.key
        for call in calls
        if (seconds := waited_s(call, records.get(call.key), known, now, is_newest=call.round == newest)) is not None
        and seconds >= wait_s
    )


def waited_s(call: Made, record: CallRecord | None, known: Monitored, now: float, *, is_newest: bool) -> float | None:
    """How long its result took, as far as the session knows; the newest round's came with the request at `now`."""
    if not call.has_result:
        return None
    issued = record.issued_at if record is not None else None
    at = record.returned_at if record is not None else None
    if is_newest and at is None:
        issued, at = known.ended_at if issued is None else issued, now
    return None if issued is None or at is None else at - issued


def new_records(messages: Sequence[Mapping[str, Any]], known: Monitored, now: float) -> tuple[CallRecord, ...]:
    """What a request tells of the session's calls that it did not know: new ones, and results of those it knew.

    Calls older than the newest `CALLS` are forgotten already: told again they would drive out newer ones.
    """
    made = calls_made(messages)[-CALLS:]
    records = {record.id: record for record in known.calls}
    newest = made[-1].round if made else -1
    found: list[CallRecord] = []
    for call in made:
        before = records.get(call.key)
        if before is not None and (before.result is not None or not call.has_result):
            continue
        arguments, is_new = canonical(call.arguments), call.round == newest
        issued = before.issued_at if before is not None else None
        found.append(
            CallRecord(
                id=call.key,
                tool=call.tool,
                arguments=hashed(arguments),
                near=hashed(_near_form(arguments)),
                result=hashed(result_text(call.result)) if call.has_result else None,
                issued_at=known.ended_at if issued is None and is_new else issued,
                returned_at=now if is_new and call.has_result else None,
                after_user=call.after_user,
            )
        )
    return tuple(found)


def hashed(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SIZE).hexdigest()


def result_text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result, sort_keys=True, default=str)
