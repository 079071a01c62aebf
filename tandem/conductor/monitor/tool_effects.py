"""What a call of a tool changes, told from the tool's declaration alone (MON-098, MON-099). Pure.

Who reads more out of a declaration than it says holds calls back for nothing, so whatever is not told here changes
nothing. A client may join a server's name and a tool's with one underscore, so a verb may also be a name's second word
(decided).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from tandem.conductor.tool_arguments import COMMANDS, CONTENTS, PATHS, argument_names, mapping

__all__ = ["Effect", "changing", "effect_of", "is_shell", "is_writer"]

Effect: TypeAlias = Literal["send", "schedule", "write", "create", "delete"]

RECIPIENTS: Final = frozenset({"to", "recipient", "recipients", "channel", "channelid", "chatid"})
MESSAGES: Final = frozenset({"body", "message", "text", "content"})
TIMES: Final = frozenset({"date", "datetime", "start", "starttime", "startdate", "due", "duedate"})
SUBJECTS: Final = frozenset({"title", "summary", "subject", "message", "text"})
REPLACED: Final = frozenset({"newstring", "newstr", "newtext", "replacement", "edits"})
"""What an editor is given in place of a whole content."""

READS: Final = frozenset({"get", "list", "search", "read", "fetch"})
CREATES: Final = frozenset({"create", "add", "set", "update"})
DELETES: Final = frozenset({"delete", "remove", "cancel"})
VERBS: Final = READS | CREATES | DELETES
PREFIX: Final = re.compile(r".*(?:__|[./:])")
"""The MCP server's part of a name."""
WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")
LOOKED_AT: Final = 200
"""Characters of a name or description in which a verb is looked for."""


def changing(tools: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[int]:
    """Of the calls with these tools the places of those that change something."""
    wanted = set(names)
    # Of two of one name the first counts (API-104).
    called = {name: tool for tool in reversed(tools) if (name := mapping(tool.get("function")).get("name")) in wanted}
    effects = {name: effect_of(tool) for name, tool in called.items()}
    return [at for at, name in enumerate(names) if effects.get(name) is not None]


def effect_of(tool: Mapping[str, Any]) -> Effect | None:
    """None: it reads, or nothing says what it does."""
    function = mapping(tool.get("function"))
    hints = {**mapping(tool.get("annotations")), **mapping(function.get("annotations"))}
    verb = _verb(function)
    if hints.get("readOnlyHint") is True or verb in READS or is_shell(tool):
        return None
    if hints.get("destructiveHint") is True:
        return "delete"
    names = argument_names(tool, None)
    if names & RECIPIENTS and names & MESSAGES:
        return "send"
    if names & TIMES and names & SUBJECTS:
        return "schedule"
    if is_writer(tool):
        return "write"
    return "create" if verb in CREATES else "delete" if verb in DELETES else None


def is_shell(tool: Mapping[str, Any]) -> bool:
    """It takes a command. An editor whose commands are words of its own takes a path and a content too."""
    names = argument_names(tool)
    return bool(names & COMMANDS) and not names & PATHS


def is_writer(tool: Mapping[str, Any]) -> bool:
    """It takes a path and what is to stand there."""
    names = argument_names(tool, None)
    return bool(names & PATHS) and bool(names & (CONTENTS | REPLACED))


def _verb(function: Mapping[str, Any]) -> str | None:
    """The name's own, else the one that the description begins with."""
    name = PREFIX.sub("", str(function.get("name") or "")[:LOOKED_AT])
    words = [match[0].lower() for match in WORD.finditer(name)]
    found = next((word for word in words[:2] if word in VERBS), None)
    if found is not None:
        return found
    begun = WORD.match(str(function.get("description") or "")[:LOOKED_AT].lstrip())
    return None if begun is None else _base(begun[0].lower())


def _base(word: str) -> str | None:
    """`Creates` is `create`, `Searches` is `search`."""
    forms = (word, word.removesuffix("s"), word.removesuffix("es"))
    return next((form for form in forms if form in VERBS), None)
