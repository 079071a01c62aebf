"""The working directory in tools' descriptions, moved into the turn (FIT-001).

Open WebUI's terminal tools end their description with the directory and fetch it anew for every message. Left there,
one `cd` changes the prompt's first tokens, and everything behind them is read again. Taken out of every prompt, the
tools render the same on every turn, and a turn is told the directory only when it is another than the one last told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tandem.conductor.router.notes import NotePart
from tandem.engine.text.model import Conversation

__all__ = ["SENTENCE", "Moved", "move_directory"]

SENTENCE = "The current working directory is: "
LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True)
class Moved:
    """A conversation whose tools no longer name the directory."""

    conversation: Conversation
    directory: str
    tools: tuple[str, ...]
    """Names of the tools whose description was cut, for the row."""

    @property
    def part(self) -> NotePart:
        """The sentence as the client wrote it; the notes leave it out where it was the last one told."""
        return NotePart("directory", "directory", SENTENCE + self.directory)


def move_directory(conversation: Conversation) -> Moved | None:
    """None where no tool names a directory, or where tools name several: one sentence could not stand for them."""
    found = [(at, *cut) for at, tool in enumerate(conversation.tools) if (cut := _cut(tool)) is not None]
    if len({directory for _, _, directory in found}) != 1:
        return None
    tools = list(conversation.tools)
    for at, shortened, _ in found:
        tools[at] = shortened
    names = tuple(str(shortened["function"].get("name")) for _, shortened, _ in found)
    return Moved(replace(conversation, tools=tools), found[0][2], names)


def _cut(tool: Mapping[str, Any]) -> tuple[Mapping[str, Any], str] | None:
    """The tool without the sentence that ends its description, and the directory."""
    function = tool.get("function")
    description = function.get("description") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(description, str):
        return None
    before, sentence, rest = description.rpartition(SENTENCE)
    directory = rest.strip()
    if not sentence or not directory or len(directory) > LONGEST_PATH or len(directory.splitlines()) > 1:
        return None
    if before and not before[-1].isspace():
        return None
    return {**tool, "function": {**function, "description": before.rstrip()}}, directory
