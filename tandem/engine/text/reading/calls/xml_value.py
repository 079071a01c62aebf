"""A parameter's value in the XML form, and which tag ends it.

A value may be source code that holds such tags, so not every one of them ends it:

- at the start of a line, and anywhere on the line of the value's own opening tag, every tag of the form does;
- further along a later line, `</parameter>` does if another tag follows it, and `</function>` inside a `<tool_call>`
  pair if `</tool_call>` or another call follows it; the other tags, if they are the last thing on their line or
  another tag stands right behind.

`print("</parameter>")` in a file is so part of it, and a value whose tag was left out still ends at the next line's
tag. The end of the text follows like a tag.

One line break on each side is the format's. A carriage return before the last one belongs to the value if the first
line break had none.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tandem.engine.text.reading.calls.source import Source, Steps
from tandem.engine.text.reading.calls.tags import LONGEST_SPACE, WAIT, Look, Wait, follows, tag_at

__all__ = ["read_value"]

_LINE_END = re.compile(rf"[ \t]{{0,{LONGEST_SPACE}}}")
_AFTER_PARAMETER = frozenset({"<parameter", "</function>", "</tool_call>", "<function"})
_AFTER_FUNCTION = frozenset({"</tool_call>", "<tool_call>", "<function"})


def read_value(source: Source, send: Callable[[str], None], *, is_paired: bool) -> Steps[None]:
    """Reads a value up to the tag that ends it. Its last line break so far is held, for it may be the format's."""
    while source.text[source.at :] in ("", "\r"):
        yield
    start = _break_at_start(source.text, source.at)
    on_tag_line, at_line_start = start == source.at, start > source.at
    with_return = start - source.at != 1
    source.take(start)
    while True:
        at = source.text.find("<", source.seen)
        upto = _before_break(source.text, source.at, at, with_return=with_return)
        if upto > source.at:
            text = source.take(upto)
            send(text)
            on_tag_line, at_line_start = on_tag_line and "\n" not in text, False
        if at < 0:
            yield
            continue
        source.seen = at
        starts_line = at_line_start or upto < at
        is_sure = starts_line or on_tag_line
        look = value_end(source.text, at, is_sure=is_sure, is_paired=is_paired, ended=source.ended)
        if look is WAIT:
            yield
        elif look is None:
            text = source.take(at + 1)
            send(text)
            on_tag_line, at_line_start = on_tag_line and "\n" not in text, False
        else:
            source.take(look.end if look.kind == "</parameter>" else at)
            return


def value_end(text: str, at: int, *, is_sure: bool, is_paired: bool, ended: bool) -> Look:
    """The tag at the index if it ends the value. `is_sure`: it stands where every tag does."""
    look = tag_at(text, at)
    if look is None or look is WAIT:
        return look
    if look.kind == "<tool_call>":
        return None
    if is_sure:
        return look
    if look.kind == "</parameter>":
        does = follows(text, look.end, _AFTER_PARAMETER, ended=ended)
    elif look.kind == "</function>" and is_paired:
        does = follows(text, look.end, _AFTER_FUNCTION, ended=ended)
    else:
        does = _is_last(text, look.end, ended=ended)
    return WAIT if does is WAIT else look if does else None


def _is_last(text: str, at: int, *, ended: bool) -> bool | Wait:
    """Whether the line ends here, or a tag of any kind begins."""
    match = _LINE_END.match(text, at)
    end = match.end() if match else at
    if end == len(text):
        return True if ended else WAIT
    return text[end] in "\r\n<"


def _break_at_start(text: str, at: int) -> int:
    """The index behind the line break at `at`, if one is there."""
    return at + 2 if text.startswith("\r\n", at) else at + text.startswith("\n", at)


def _before_break(text: str, low: int, high: int, *, with_return: bool) -> int:
    """The end of `text[low:high]` without its last line break; -1 is the rest, which may stop within a break."""
    end = len(text) if high < 0 else high
    if end > low and text[end - 1] == "\n":
        end -= 1
    elif high >= 0:
        return end
    return end - 1 if with_return and end > low and text[end - 1] == "\r" else end
