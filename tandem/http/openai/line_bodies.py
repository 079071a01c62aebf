"""The state lines of an answer in one body (API-151): where in its texts they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tandem.conductor.lines.frame import framed
from tandem.engine.text.reading.deltas import Content, Line, ReasoningEnd, ReasoningStart
from tandem.http.openai.formats import Thought
from tandem.http.openai.lines import LineWay

__all__ = ["Said", "laid_out"]


@dataclass(frozen=True, slots=True)
class Said:
    """A line and whether it came before all text."""

    line: Line
    is_early: bool


def laid_out(
    texts: Sequence[Thought | Content], lines: Sequence[Said], way: LineWay
) -> tuple[list[Thought | Content], str, str]:
    """The texts of reasoning and answer with the lines of the content among them; and what stands before and behind
    the reasoning that goes out apart.

    Lines of the content stand before all of it; within the tags early ones at their beginning and later ones at their
    end; those of memory behind the answer.
    """
    head, opening, closing, tail = "", "", "", ""
    before, behind = "", ""
    for said in lines:
        for place, spot in way.spots(said.line.kind):
            text = framed(said.line.text)
            if spot == "end":
                tail += text
            elif place == "reasoning":
                before, behind = (before + text, behind) if said.is_early else (before, behind + text)
            elif spot == "inside":
                opening, closing = (opening + text, closing) if said.is_early else (opening, closing + text)
            else:
                head += text
    return [*_content(head), *_inside(texts, opening, closing), *_content(tail)], before, behind


def _inside(texts: Sequence[Thought | Content], opening: str, closing: str) -> list[Thought | Content]:
    """With the lines that stand in the block's tags; without a block they are dropped."""
    found: list[Thought | Content] = []
    for text in texts:
        if isinstance(text, ReasoningEnd):
            found += _content(closing)
        found.append(text)
        if isinstance(text, ReasoningStart):
            found += _content(opening)
    return found


def _content(text: str) -> list[Content]:
    return [Content(text)] if text else []
