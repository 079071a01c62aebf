"""The stray closers of an answer: a `</think>` alone on a line, which some models write a second time (ANS-003).

One that means something stays: in a sentence, in code (fenced, or indented by four), in a block that is handed on as it
is written, or where it closes a `<think>` that the answer opened. What a line means to the next ones is read when the
line is complete, so only the first characters of a line that may still become the tag are held, and every split of the
input gives the same output.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from tandem.engine.text.reading.splitter import CLOSER, OPENER

__all__ = ["CloserFilter", "Place"]

Place: TypeAlias = tuple[int, str]
"""Text, and the offset of its first character."""

INDENT: Final = 3
"""Spaces that may stand before the tag; more make a line code."""
TRAIL: Final = 64
"""White space that may stand behind it. The line break goes with the line."""

_BLOCKS: Final = {"<tool_call>": "</tool_call>", "<tandem_memory>": "</tandem_memory>"}
_TAG = re.compile("|".join((*_BLOCKS, OPENER, CLOSER)))
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")


class CloserFilter:
    """Drops the lines that hold nothing but a closing tag."""

    def __init__(self) -> None:
        self.count = 0
        """Closers that were not sent."""
        self._open: str | None = None
        """What ends the block that is open: a tag, or the fence's characters."""
        self._thoughts = 0
        """`<think>` that the answer has opened and not closed."""
        self._may_drop = True
        """The line, as far as it has come, may be a closer's: `_held`, which begins at `_at`, is all of it."""
        self._held = ""
        self._at = 0
        self._line: list[str] = []
        """What of the line has gone out."""

    def feed(self, at: int, text: str) -> list[Place]:
        """What can go out of the text so far, now that `text` has come."""
        out: list[Place] = []
        low = 0
        while low < len(text):
            high = text.find("\n", low) + 1 or len(text)
            self._read(at + low, text[low:high], out)
            low = high
        return _joined(out)

    def end(self) -> list[Place]:
        """The line ends here without a break: what comes next is a call, or nothing."""
        out: list[Place] = []
        if self._held or self._line:
            self._finish(out)
        return out

    def _read(self, at: int, piece: str, out: list[Place]) -> None:
        """A piece of one line, its break at most at the end."""
        if self._may_drop:
            if not self._held:
                self._at = at
            self._held += piece
            if not _may_be_closer(self._held):
                self._release(out)
        else:
            self._line.append(piece)
            out.append((at, piece))
        if piece.endswith("\n"):
            self._finish(out)

    def _finish(self, out: list[Place]) -> None:
        if CLOSER in self._held:
            self.count += 1
            self._held = ""
        else:
            self._release(out)
            self._follow("".join(self._line))
        self._line = []
        self._may_drop = self._open is None and not self._thoughts

    def _release(self, out: list[Place]) -> None:
        if self._held:
            out.append((self._at, self._held))
            self._line.append(self._held)
        self._held = ""
        self._may_drop = False

    def _follow(self, line: str) -> None:
        """What a complete line opens and closes."""
        if self._open is not None and self._open[0] in "`~":
            fence = _FENCE.match(line)
            if fence and fence[1].startswith(self._open) and not fence[2].strip():
                self._open = None
            return
        if self._open is None and (fence := _FENCE.match(line)):
            self._open = fence[1]
            return
        if "<" in line:
            self._follow_tags(line)

    def _follow_tags(self, line: str) -> None:
        if self._open is None:
            line = _CODE.sub("", line)
        at = 0
        while True:
            if self._open is not None:
                found = line.find(self._open, at)
                if found < 0:
                    return
                at, self._open = found + len(self._open), None
            tag = _TAG.search(line, at)
            if tag is None:
                return
            at = tag.end()
            if tag[0] in _BLOCKS:
                self._open = _BLOCKS[tag[0]]
            else:
                self._thoughts = self._thoughts + 1 if tag[0] == OPENER else max(self._thoughts - 1, 0)


def _may_be_closer(line: str) -> bool:
    """Whether the line is a closer's, or its beginning may become one."""
    body = line.lstrip(" ")
    if len(line) - len(body) > INDENT:
        return False
    if len(body) < len(CLOSER):
        return CLOSER.startswith(body)
    trail = body[len(CLOSER) :]
    return body.startswith(CLOSER) and len(trail) <= TRAIL and not trail.strip(" \t\r\n")


def _joined(places: list[Place]) -> list[Place]:
    """Neighbours as one."""
    out: list[Place] = []
    for at, text in places:
        if out and out[-1][0] + len(out[-1][1]) == at:
            out[-1] = (out[-1][0], out[-1][1] + text)
        else:
            out.append((at, text))
    return out
