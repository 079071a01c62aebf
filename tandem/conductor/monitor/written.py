"""Which calls write a file, and which files a call names: told by the tool's declaration and the arguments' names.

A shell writes where its command puts something into a file, `>` and `tee` for example. A call whose write is not seen
here costs its session a note too many, so what looks like one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tandem.conductor.monitor.tool_effects import is_writer
from tandem.conductor.tool_arguments import COMMANDS, PATHS, declared, mapping, texts_in

__all__ = ["can_write", "file_names", "writes"]

LOOKED_AT: Final = 16_384
"""Characters of a command that are looked at, from its beginning."""
PATCH: Final = re.compile(r"patch", re.IGNORECASE)
"""In its name: a tool that takes a patch as one text."""
INTO_FILE: Final = re.compile(
    r"(?<![0-9&>=<-])>{1,2}[ \t]*(?![&(|>=]|/dev/)[\w~./$\"'{-]|\btee\s|\bsed\s+(?:-\w+\s+)*-[a-zA-Z]*i|\bgit\s+apply\b"
    r"|\bapply_patch\b|\b(?:cp|mv|touch)\s"
)
NAME: Final = re.compile(r"[\w.-]+\.\w{1,8}(?![\w.-])")


def can_write(tools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of them is made for writing files; a shell alone is not."""
    return any(_is_writer(tool) for tool in tools)


def writes(tools: Sequence[Mapping[str, Any]], name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call of the tool with these arguments writes a file."""
    tool = declared(tools, name)
    if tool is None:
        return bool(PATCH.search(name))
    return _is_writer(tool) or any(INTO_FILE.search(text[:LOOKED_AT]) for text in texts_in(arguments, COMMANDS))


def file_names(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Names of the files that a call's paths and commands name, without their folders."""
    for text in texts_in(arguments, PATHS):
        yield text.replace("\\", "/").rstrip("/").rpartition("/")[2]
    for text in texts_in(arguments, COMMANDS):
        yield from NAME.findall(text[:LOOKED_AT])


def _is_writer(tool: Mapping[str, Any]) -> bool:
    return is_writer(tool) or bool(PATCH.search(str(mapping(tool.get("function")).get("name") or "")))
