"""The reasoning splitter: which text of an answer is thinking, and which is the answer (ENG-185, API-258).

A block is open from the start where the prompt opened it, else by a `<think>` that is the first text other than
whitespace. After the first `</think>` everything is answer. Text that may still become a tag is held back, so every
split of the input gives the same output.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from tandem.engine.text.prompt import Thinking

__all__ = ["CLOSER", "OPENER", "Part", "Splitter"]

OPENER: Final = "<think>"
CLOSER: Final = "</think>"

_CALLS: Final = {"<tool_call>": "</tool_call>", "<function=": "</function>"}
"""What opens a call block, and what closes it; inside the pair a `<function=` is part of the block."""

_TAGS = (CLOSER, *_CALLS, *_CALLS.values())
_TAG = re.compile("|".join(_TAGS))
_HEADS = frozenset(tag[:cut] for tag in _TAGS for cut in range(1, len(tag)))


class Part(NamedTuple):
    """A piece of the input that begins at offset `at` of it. `start` has no text; that of `end` is the closing tag."""

    kind: Literal["start", "reasoning", "end", "blank", "answer"]
    at: int
    text: str


class Splitter:
    """Starts as the prompt left the block; the parts of `start` and `end` come once each, in that order."""

    def __init__(self, thinking: Thinking) -> None:
        self.in_reasoning = thinking == "open"
        """A block is open."""
        self.is_closed = False
        """A block was open and no longer is."""
        self._announced = False
        self._state: Literal["head", "reasoning", "blank", "answer"] = "head"
        self._at = 0
        """Offset of the first character that has not gone out."""
        self._blanks: list[str] = []
        """Whitespace that waits for what comes behind it."""
        self._tail = ""
        """The end of the text where it may become a tag; `_given` characters of it have gone out."""
        self._given = 0
        self._call: str | None = None
        """What closes the call block that is open inside the reasoning."""

    @property
    def may_reason(self) -> bool:
        """A block is open, or the first text has not been seen yet."""
        return self.in_reasoning or (not self.is_closed and self._state == "head")

    @property
    def in_answer(self) -> bool:
        """The answer's own text has begun."""
        return self._state == "answer"

    @property
    def in_call(self) -> bool:
        """A call block is open inside the reasoning (ENG-186)."""
        return self._call is not None

    def feed(self, text: str) -> list[Part]:
        parts: list[Part] = []
        self._announce(parts)
        while text:
            match self._state:
                case "head":
                    text = self._head(text, parts)
                case "reasoning":
                    text = self._reasoning(text, parts)
                case "blank":
                    text = self._blank(text, parts)
                case "answer":
                    self._give(parts, "answer", text)
                    break
        return parts

    def end(self) -> list[Part]:
        """What was held back, as what it is: a half tag is text; whitespace behind the closer is blank."""
        parts: list[Part] = []
        self._announce(parts)
        held = "".join(self._blanks) + self._tail[self._given :]
        if self._state == "blank":
            self._give(parts, "blank", held)
        else:
            self._give(parts, "reasoning" if self.in_reasoning else "answer", held)
        self._blanks, self._tail, self._given = [], "", 0
        return parts

    def close(self) -> list[Part]:
        """Close the open block without a tag in the text: what comes next is the answer."""
        if not self.in_reasoning:
            return []
        parts = self.end()
        self._close(parts, "")
        return parts

    def _head(self, text: str, parts: list[Part]) -> str:
        """Until the first text other than whitespace is known to be the opening tag, or not to be.

        As the other states: adds parts, and gives back what is left for the next state.
        """
        body = self._tail + text if self._tail else self._hold_blank(text)
        if len(body) < len(OPENER) and OPENER.startswith(body):
            self._tail = body
            return ""
        blank = "".join(self._blanks)
        self._blanks, self._tail = [], ""
        if body.startswith(OPENER):
            self._at += len(blank) + len(OPENER)
            self.in_reasoning = True
            self._announce(parts)
            self._state = "reasoning"
            return body[len(OPENER) :]
        self._state = "reasoning" if self.in_reasoning else "answer"
        return blank + body

    def _reasoning(self, text: str, parts: list[Part]) -> str:
        if not self._tail and "<" not in text:
            self._give(parts, "reasoning", text)
            return ""
        seen, given = self._tail + text, self._given
        self._tail, self._given = "", 0
        for match in _TAG.finditer(seen):
            if match[0] == CLOSER:
                self._give(parts, "reasoning", seen[given : match.start()])
                self._close(parts, CLOSER)
                return seen[match.end() :]
            self._follow_call(match[0])
        self._tail = _head_of_tag(seen)
        held = len(self._tail) if CLOSER.startswith(self._tail) else 0
        self._give(parts, "reasoning", seen[given : len(seen) - held])
        self._given = len(self._tail) - held
        return ""

    def _blank(self, text: str, parts: list[Part]) -> str:
        """Behind the closer, until the answer's first character: its line's indentation is its own."""
        body = self._hold_blank(text)
        if not body:
            return ""
        blank = "".join(self._blanks)
        self._blanks = []
        cut = blank.rfind("\n") + 1
        self._give(parts, "blank", blank[:cut])
        self._state = "answer"
        return blank[cut:] + body

    def _announce(self, parts: list[Part]) -> None:
        if self.in_reasoning and not self._announced:
            self._announced = True
            parts.append(Part("start", self._at, ""))

    def _close(self, parts: list[Part], tag: str) -> None:
        parts.append(Part("end", self._at, tag))
        self._at += len(tag)
        self.in_reasoning, self.is_closed = False, True
        self._call = None
        self._state = "blank"

    def _follow_call(self, tag: str) -> None:
        if self._call is None:
            self._call = _CALLS.get(tag)
        elif tag == self._call:
            self._call = None

    def _hold_blank(self, text: str) -> str:
        """`text` from its first character other than whitespace on; what is before it is held."""
        body = text.lstrip()
        if len(body) < len(text):
            self._blanks.append(text[: len(text) - len(body)])
        return body

    def _give(self, parts: list[Part], kind: Literal["reasoning", "blank", "answer"], text: str) -> None:
        if text:
            parts.append(Part(kind, self._at, text))
            self._at += len(text)


def _head_of_tag(text: str) -> str:
    """The end of `text` that may become a tag: every tag has its only `<` in front."""
    tail = text[text.rfind("<") :] if "<" in text else ""
    return tail if tail in _HEADS else ""
