"""Calls that A1 has stopped, as a client sends them back: cut down to a marker, and counted by it (MON-112 to MON-114).

A model that finds its own endless call in the prompt copies it. So the repetition goes, before anything reads the
messages, and what stands in its place says what happened. The next request knows by the markers how often it did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Any, Final

from tandem.conductor.monitor.periods import Period, text_period
from tandem.conductor.monitor.state import Monitored

__all__ = ["FRESH", "Stop", "cut_history", "is_fresh_stop", "shown_name", "stops_since_user"]

HEAD: Final = 1_500
"""Characters that stay."""
COPIES: Final = 2.5
SHORTEST: Final = 512
"""Characters that repeat themselves."""
LONGEST_UNIT: Final = 8_192
"""JSON's escapes lengthen a unit."""
START: Final = 80
"""Characters of the unit that the marker quotes."""
LONGEST_NAME: Final = 64
FRESH: Final = "call_stopped"
"""What a task of A1's has kept where its stop is still to be told of."""
PLACEHOLDERS: Final = ("invalid",)
"""Tools by whose name a client sends back a call that it could not read, the text of it in one of the arguments."""
NAMED: Final = ("tool", "toolName", "name")
"""Arguments of theirs that name the tool meant."""
BEHIND: Final = (0, 128, 512)
"""Characters that a client's own words behind such a text may have."""
MARKED: Final = 4_096
"""Characters at a text's end in which a marker is looked for."""
FIELDS: Final = {
    "tool": r"[^\n]{1,64}?",
    "unit": r"\d{1,7}",
    "copies": r"\d{1,7}",
    "start": r'"(?:[^"\\]|\\.){0,500}"',
    "left_out": r"\d{1,9}",
}
"""What stands for each placeholder of a marker."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A stopped call."""

    tool: str
    unit: int
    """Characters of the piece that came again and again."""


def cut_history(
    messages: Sequence[Mapping[str, Any]], marker: str
) -> tuple[Sequence[Mapping[str, Any]], tuple[Stop, ...]]:
    """The messages with the policy's `marker` in place of each stopped call's repetition, and what was cut.

    The client's objects stay as they are; where nothing is cut, so does the list. Arguments that can be parsed are not
    touched: a call that is whole may repeat itself as it likes.
    """
    found: list[Stop] = []
    cut = [_cut_message(message, marker, found) for message in messages]
    return (cut, tuple(found)) if found else (messages, ())


def stops_since_user(messages: Sequence[Mapping[str, Any]], marker: str) -> tuple[Stop, ...]:
    """The stops behind the newest user message, oldest first. A message with calls and no marker begins anew."""
    found: list[Stop] = []
    for message in reversed(messages):
        role, calls = message.get("role"), message.get("tool_calls") or ()
        if role == "user":
            break
        if role == "assistant" and calls:
            stops = [stop for call in calls for stop in _marked(call, marker)]
            if not stops:
                break
            found += reversed(stops)
    return tuple(reversed(found))


def is_fresh_stop(session: Monitored) -> bool:
    """The session's last answer with tools was a stopped call, and no request has heard of it yet (MON-110)."""
    return any(kept.get(FRESH) for kept in session.kept.values())


def shown_name(tool: str) -> str:
    """A tool's name as a sentence may hold it. Half a surrogate pair, which no UTF-8 holds, is left out."""
    return " ".join(tool.encode("utf-8", "ignore").decode().split())[:LONGEST_NAME] or "tool"


def _cut_message(message: Mapping[str, Any], marker: str, found: list[Stop]) -> Mapping[str, Any]:
    before = len(found)
    calls = message.get("tool_calls") if message.get("role") == "assistant" else None
    cut = [_cut_call(call, marker, found) for call in calls or ()]
    return {**message, "tool_calls": cut} if len(found) > before else message


def _cut_call(call: Mapping[str, Any], marker: str, found: list[Stop]) -> Mapping[str, Any]:
    name, arguments = _name_and_arguments(call)
    if (sent := _sent_back(name, arguments)) is not None:
        cut = {key: _cut_text(_tool(sent, name), text, marker, found, BEHIND) for key, text in sent.items()}
        arguments = json.dumps(cut, ensure_ascii=False) if cut != sent else arguments
    elif _loop(arguments, BEHIND[:1]) is not None and not _is_json(arguments):
        # In this order: few texts end in a loop, and each would have to be parsed as a whole.
        arguments = _cut_text(name, arguments, marker, found, BEHIND[:1])
    return {**call, "function": {**call["function"], "arguments": arguments}}


def _cut_text(tool: str, text: Any, marker: str, found: list[Stop], behind: Sequence[int]) -> Any:
    """`text` without its repetition; anything else than a text with one as it is."""
    loop = _loop(text, behind) if isinstance(text, str) else None
    if loop is None:
        return text
    period, end = loop
    start = end - period.span
    kept = HEAD if end > HEAD else start + period.unit
    stop = Stop(shown_name(tool), period.unit)
    found.append(stop)
    quoted = json.dumps(text[start : start + min(period.unit, START)], ensure_ascii=False)
    told = marker.format(tool=stop.tool, unit=stop.unit, copies=int(period.copies), start=quoted, left_out=end - kept)
    return text[:kept] + told + text[end:]


def _loop(text: str, behind: Sequence[int]) -> tuple[Period, int] | None:
    """The repetition that `text` ends with, but for a few characters `behind` it, and where it ends."""
    for left in behind:
        end = len(text) - left
        period = text_period(text[:end], LONGEST_UNIT) if end >= SHORTEST else None
        if period is None:
            continue
        more = 0
        while end + more < len(text) and text[end + more] == text[end + more - period.unit]:
            more += 1
        whole = Period(period.unit, period.span + more)
        if whole.copies >= COPIES and whole.span >= SHORTEST:
            return whole, end + more
    return None


def _marked(call: Mapping[str, Any], marker: str) -> Iterator[Stop]:
    """The stops that a call's arguments tell of."""
    name, arguments = _name_and_arguments(call)
    sent = _sent_back(name, arguments)
    texts = [text for text in sent.values() if isinstance(text, str)] if sent is not None else [arguments]
    for text in texts:
        match = _pattern(marker).search(text[-MARKED:])
        if match is not None and (sent is not None or not _is_json(arguments)):
            yield Stop(match["tool"], int(match["unit"]))


@lru_cache(maxsize=8)
def _pattern(marker: str) -> re.Pattern[str]:
    """What finds the filled `marker`, whatever its wording."""
    seen: set[str] = set()
    parts: list[str] = []
    for literal, name, _, _ in Formatter().parse(marker):
        parts.append(re.escape(literal))
        if name is not None:
            form = FIELDS[name]
            parts.append(form if name in seen else f"(?P<{name}>{form})")
            seen.add(name)
    return re.compile("".join(parts))


def _name_and_arguments(call: Mapping[str, Any]) -> tuple[str, str]:
    function = call["function"]
    return str(function.get("name") or ""), str(function.get("arguments") or "")


def _sent_back(name: str, arguments: str) -> dict[str, Any] | None:
    """The arguments of a client's placeholder for a call that it could not read; None of any other call."""
    if name not in PLACEHOLDERS:
        return None
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _tool(sent: Mapping[str, Any], name: str) -> str:
    """The tool that a placeholder stands for."""
    return next((value for key in NAMED if isinstance(value := sent.get(key), str)), name)


def _is_json(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    return True
