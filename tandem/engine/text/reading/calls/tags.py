"""The tags of the XML form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from tandem.engine.text.reading.calls.source import SPACE

__all__ = ["LONGEST_SPACE", "WAIT", "Look", "Tag", "Wait", "follows", "tag_at"]

_NAME = r"""[^<>\r\n"'`()*\\]"""
_LONGEST_NAME = 200
LONGEST_SPACE = 64
"""White space between two tags; with more of it the second does not count as following. Keeps a look-ahead short."""

_TAG = re.compile(
    r"</parameter>|</function>|</tool_call>|<tool_call>"
    rf"|<(?:parameter|function)=(?P<name>{_NAME}{{1,{_LONGEST_NAME}}})>"
)
_OPENING = re.compile(rf"<(?:parameter|function)={_NAME}{{0,{_LONGEST_NAME}}}")
_MARKS = ("</parameter>", "</function>", "</tool_call>", "<tool_call>", "<parameter=", "<function=")


class _Wait(Enum):
    WAIT = "more text decides"


WAIT = _Wait.WAIT
Wait: TypeAlias = Literal[_Wait.WAIT]


@dataclass(frozen=True, slots=True)
class Tag:
    """A whole tag; `end` is the index behind it, `name` what an opening tag names."""

    kind: str
    """The tag itself, or an opening tag up to its `=`."""
    name: str
    end: int


Look: TypeAlias = Tag | Wait | None
"""A tag, none, or more text is needed to tell."""


def tag_at(text: str, at: int) -> Look:
    """The tag that begins at the index."""
    if match := _TAG.match(text, at):
        name = match["name"]
        if name is None:
            return Tag(match[0], "", match.end())
        return Tag(match[0].partition("=")[0], name.strip(), match.end()) if name.strip() else None
    rest = text[at : at + _LONGEST_NAME + 16]
    could_be = any(mark.startswith(rest) for mark in _MARKS) or _OPENING.fullmatch(rest)
    return WAIT if could_be else None


def follows(text: str, at: int, kinds: frozenset[str], *, ended: bool) -> bool | Wait:
    """Whether one of these tags is the next thing past white space; the end of the text counts as one."""
    end = at
    limit = min(len(text), at + LONGEST_SPACE)
    while end < limit and text[end] in SPACE:
        end += 1
    if ended and end == len(text):
        return True
    look = tag_at(text, end)
    if look is WAIT:
        return False if ended else WAIT
    return look is not None and look.kind in kinds
