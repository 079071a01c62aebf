"""Whether a turn ends in a repeat, told from the request's own messages (SMP-005, SMP-007). Pure.

A greedy model that sees its own call fail the same way twice makes it a third time; one drawn token leads out. What a
result says is not read: it is equal or it is not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Literal

__all__ = ["ESCAPE_TEXT", "REPEATS", "Repeat", "repeat_at_end"]

REPEATS = 3
"""The call that would be this one's number is one too many (monitor task C3)."""
NEAR = 3
LONGEST_NAME = 64
SIMILAR = 0.8
COMPARED = 1_000
"""Characters of the arguments that are compared for being similar, from their beginning."""
ESCAPE_TEXT = "Repeating {tool} brought nothing new. Pick another call or other arguments."


@dataclass(frozen=True, slots=True)
class Repeat:
    """What the turn ends in."""

    why: Literal["repeat", "near"]
    name: str
    """The tool that was called."""

    @property
    def note(self) -> str:
        """What the model is told at the prompt's end."""
        return ESCAPE_TEXT.format(tool=self.name[:LONGEST_NAME])


@dataclass(frozen=True, slots=True)
class _Done:
    """A call and what it brought."""

    name: str
    arguments: Any
    result: Any

    def brought_the_same_as(self, other: _Done) -> bool:
        """The same tool, the same result."""
        return (self.name, self.result) == (other.name, other.result)

    @property
    def canonical(self) -> str:
        """The arguments as canonical JSON, or as they are where they are none."""
        arguments = self.arguments
        try:
            value = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
            return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        except (ValueError, RecursionError):
            return str(arguments)


def repeat_at_end(
    messages: Sequence[Mapping[str, Any]], *, repeats: int = REPEATS, waited: Collection[str] = ()
) -> Repeat | None:
    """`waited` are ids of calls whose result took so long that the call was a wait: they end the streak."""
    newest = list(islice(_calls_from_end(messages, waited), max(repeats - 1, NEAR)))
    if not newest:
        return None
    last, same = newest[0], newest[: repeats - 1]
    if len(same) == repeats - 1 and all(_is_same(each, last) for each in same[1:]):
        return Repeat("repeat", last.name)
    near = newest[1:NEAR]
    if len(near) == NEAR - 1 and all(_is_near(each, last) for each in near):
        return Repeat("near", last.name)
    return None


def _is_same(one: _Done, last: _Done) -> bool:
    return one.brought_the_same_as(last) and (one.arguments == last.arguments or one.canonical == last.canonical)


def _is_near(one: _Done, last: _Done) -> bool:
    if not one.brought_the_same_as(last):
        return False
    matcher = SequenceMatcher(None, one.canonical[:COMPARED], last.canonical[:COMPARED])
    # The cheap bounds first: the ratio itself is quadratic.
    return matcher.real_quick_ratio() >= SIMILAR and matcher.quick_ratio() >= SIMILAR and matcher.ratio() >= SIMILAR


def _calls_from_end(messages: Sequence[Mapping[str, Any]], waited: Collection[str]) -> Iterator[_Done]:
    """The turn's calls, newest first, as long as each has its result; a user's message is where the turn began."""
    results: list[Mapping[str, Any]] = []
    for message in reversed(messages):
        role, calls = message.get("role"), message.get("tool_calls") or ()
        if role == "tool":
            results.append(message)
        elif role == "assistant" and calls and len(calls) == len(results):
            for call, result in zip(reversed(calls), _in_order(calls, results), strict=True):
                if call.get("id") in waited:
                    return
                yield _done(call, result)
            results = []
        elif role not in ("system", "developer"):
            return


def _in_order(calls: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The results, newest first, by the ids of their calls; as they stand where an id is missing."""
    by_id = {result.get("tool_call_id"): result for result in results}
    if len(by_id) == len(calls) and all(call.get("id") in by_id for call in calls):
        return [by_id[call.get("id")] for call in reversed(calls)]
    return list(results)


def _done(call: Mapping[str, Any], result: Mapping[str, Any]) -> _Done:
    function = call.get("function") or {}
    return _Done(str(function.get("name") or ""), function.get("arguments"), result.get("content"))
