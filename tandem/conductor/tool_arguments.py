"""What arguments of tools are called, what stands in them, and their canonical form.

Names are compared in lower case without `_` and `-` (decided, from the tools of opencode, Open WebUI, Claude Code and
Hermes).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = [
    "COMMANDS",
    "CONTENTS",
    "LONGEST",
    "PATHS",
    "argument_names",
    "canonical",
    "declared",
    "mapping",
    "plain",
    "texts_in",
]

COMMANDS: Final = frozenset({"command", "commands", "cmd", "commandline", "shellcommand", "bashcommand"})
PATHS: Final = frozenset({"path", "filepath", "filename", "file", "targetfile", "targetpath", "absolutepath"})
CONTENTS: Final = frozenset({"content", "contents", "filecontent", "filecontents", "filetext"})
TEXTS: Final = ("string", "array")
"""Types such an argument may have: a command is sometimes a list of words."""
LONGEST: Final = 131_072
"""Characters up to which arguments are read to compare them; longer ones are compared as they were written."""


def plain(name: str) -> str:
    """A name in the form of the sets."""
    return name.lower().replace("_", "").replace("-", "")


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def declared(tools: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """The offered tool of that name; of two the first counts (API-104)."""
    return next((tool for tool in tools if mapping(tool.get("function")).get("name") == name), None)


def argument_names(tool: Mapping[str, Any], types: Sequence[str] | None = TEXTS) -> set[str]:
    """The arguments that a tool declares, as the sets spell them; of these `types`, None: of any."""
    parameters = mapping(mapping(tool.get("function")).get("parameters"))
    return {
        plain(name)
        for name, schema in mapping(parameters.get("properties")).items()
        if isinstance(name, str) and (types is None or mapping(schema).get("type", "string") in types)
    }


def canonical(arguments: Any) -> str:
    """The arguments as canonical JSON, or as they stand where they are none, or too long to be read."""
    try:
        if isinstance(arguments, str):
            if len(arguments) > LONGEST:
                return arguments
            arguments = json.loads(arguments or "{}")
        return json.dumps(arguments, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return str(arguments)


def texts_in(arguments: Mapping[str, Any], names: Collection[str]) -> Iterator[str]:
    """The texts of the arguments with these names; a list of words is one text."""
    for name, value in arguments.items():
        if plain(name) not in names:
            continue
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield " ".join(each for each in value if isinstance(each, str))
