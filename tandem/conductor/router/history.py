"""What the calls and results in a conversation tell: tool names, files by their extension, a checker's verdict.

A checker is a script that ends with one line of this form, which makes it known (EFF-005, EFF-009; decided):

    RESULT: FAIL <- page-check: contrast, overlap, console

Behind the arrow its name, then its gates; `(7 gates)` in the line counts them where they are not all named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from tandem.conductor.router.turns import text_of

__all__ = [
    "Call",
    "Checker",
    "calls_of",
    "checker_in",
    "checkers_in",
    "extensions",
    "newest_checker",
    "newest_round",
    "newest_tools",
    "object_in",
    "plain_name",
]

PATH_KEYS: Final = (
    "path",
    "file_path",
    "filePath",
    "filepath",
    "filename",
    "file",
    "target_file",
    "relative_path",
    "notebook_path",
)
"""Arguments by which clients' tools name a file."""
LINE: Final = re.compile(
    r"^[ \t]*RESULT: (?P<verdict>PASS|FAIL)[ \t]*<-[ \t]*(?P<name>[\w.-]{1,40})[ \t:]*(?P<rest>.*)$", re.M
)
WORD: Final = "RESULT: "
"""Without it no text is searched line by line."""
COUNT: Final = re.compile(r"\b(\d{1,4}) gates?\b")
TAIL: Final = 65_536
"""Characters at the end of a result in which a checker's line is looked for: it is a script's last word."""
EXTENSION: Final = re.compile(r"[^/\\]\.([A-Za-z0-9]{1,8})$")
UNSAFE: Final = re.compile(r"[^\w.-]+")
LONGEST_NAME: Final = 24


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: Mapping[str, Any]
    """Empty where they are no JSON object."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files it names."""
        named = (self.arguments.get(key) for key in PATH_KEYS)
        return tuple(path for path in named if isinstance(path, str) and 0 < len(path) <= 4_096)


@dataclass(frozen=True, slots=True)
class Checker:
    """A checker's line."""

    name: str
    verdict: Literal["PASS", "FAIL"]
    gates: int
    named: int = 0
    """Gates that stand in the line by their names: those that fail, of a checker that says so."""


def calls_of(message: Mapping[str, Any]) -> Iterator[Call]:
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield Call(str(function.get("name") or ""), object_in(function.get("arguments")))


def newest_round(messages: Sequence[Mapping[str, Any]]) -> tuple[tuple[Call, ...], tuple[Mapping[str, Any], ...]]:
    """Calls of the newest assistant message and the results that follow it: what a request adds to the one before."""
    at = next((at for at in reversed(range(len(messages))) if messages[at].get("role") == "assistant"), None)
    if at is None:
        return (), ()
    results = (message for message in messages[at + 1 :] if message.get("role") == "tool")
    return tuple(calls_of(messages[at])), tuple(results)


def newest_tools(messages: Sequence[Mapping[str, Any]], count: int) -> list[str]:
    """Names of the last `count` calls, oldest first, in characters that break no line."""
    names = (plain_name(call.name) for call in _newest_calls(messages))
    return list(islice(names, count))[::-1]


def plain_name(name: str) -> str:
    """A tool's name in characters that break no line, and not too many of them."""
    return UNSAFE.sub("", name)[:LONGEST_NAME] or "none"


def extensions(messages: Sequence[Mapping[str, Any]], count: int) -> list[str]:
    """Extensions of the files that the last `count` calls named, each once."""
    calls = list(islice(_newest_calls(messages), count))[::-1]
    found = (EXTENSION.search(path) for call in calls for path in call.paths)
    return list(dict.fromkeys(f".{match[1].lower()}" for match in found if match))


def newest_checker(messages: Sequence[Mapping[str, Any]]) -> Checker | None:
    """The newest checker's line in any tool result of the conversation."""
    results = (message for message in reversed(messages) if message.get("role") == "tool")
    return next((checker for checker in map(checker_in, results) if checker), None)


def checker_in(result: Mapping[str, Any]) -> Checker | None:
    """The last checker's line of a tool result."""
    lines = checkers_in(result)
    return lines[-1] if lines else None


def checkers_in(result: Mapping[str, Any]) -> list[Checker]:
    """All of them, in order."""
    tail = text_of(result)[-TAIL:]
    lines = LINE.finditer(tail) if WORD in tail else ()
    return [
        Checker(line["name"], "PASS" if line["verdict"] == "PASS" else "FAIL", _gates(line), _named(line))
        for line in lines
    ]


def _gates(line: re.Match[str]) -> int:
    if told := COUNT.search(line["rest"]):
        return int(told[1])
    return max(_named(line), 1)


def _named(line: re.Match[str]) -> int:
    return sum(bool(part.strip(" \t()")) for part in COUNT.sub("", line["rest"]).split(","))


def _newest_calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[Call]:
    """All calls, the newest first."""
    for message in reversed(messages):
        if message.get("role") == "assistant":
            yield from reversed(tuple(calls_of(message)))


def object_in(arguments: Any) -> Mapping[str, Any]:
    """A call's arguments; empty where they are no JSON object."""
    if isinstance(arguments, Mapping):
        return arguments
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}
