"""The calls of models that write `<tool_call>`: the XML form, strict and lenient, and the JSON form (API-106 to 108).

- A `<tool_call>` pair holds functions or one JSON object. `<function=…>` stands without the pair only if another tag
  of the form follows it, so that prose about the tag stays prose.
- A call is complete at its pair's `</tool_call>` or at the next opening tag; without the pair, at `</function>`.
  Inside a pair more than tags and white space after the last function ends the pair, and is text.
- Between a function's parameters anything that is no tag is left out. A second parameter with a key is left out too:
  what has been sent of the first cannot be taken back.
- A pair that begins with neither is text up to its closing tag, or to the next `<tool_call>`, and so is one whose JSON
  does not parse, unless some of it has gone out: then the rest of it is dropped, and the call stays open for ever.
- A `</tool_call>` right behind a call without the pair is dropped with it.

`xml_value` tells where a value ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tandem.engine.text.reading.calls.json_form import BrokenCall, read_json_call
from tandem.engine.text.reading.calls.pieces import CallCodec, Piece, Text
from tandem.engine.text.reading.calls.schemas import ToolSchemas
from tandem.engine.text.reading.calls.sender import Sender
from tandem.engine.text.reading.calls.source import SPACE, Source, Steps
from tandem.engine.text.reading.calls.tags import WAIT, Look, Tag, follows, tag_at
from tandem.engine.text.reading.calls.xml_form import next_tag, read_parameters

__all__ = ["xml_calls"]

_INSIDE_FUNCTION = frozenset({"<parameter", "</function>", "</tool_call>"})
_PARAMETER_ENDS = frozenset({"</parameter>", "</function>"})


def xml_calls(tools: Sequence[Mapping[str, Any]], *, live: bool, new_id: Callable[[], str]) -> CallCodec:
    """The codec of `--tool-format xml`. `live`: calls go out while they are written, else whole (API-113)."""
    return _XmlCalls(ToolSchemas(tools), Sender(live=live, new_id=new_id))


@dataclass(slots=True)
class _Broken:
    """A block that did not parse, until its end."""

    at: int
    why: str
    tool: str
    parts: list[str] = field(default_factory=list)
    """Its text; empty where it goes out at once."""


class _XmlCalls:
    def __init__(self, tools: ToolSchemas, sender: Sender) -> None:
        self.spans: list[tuple[int, int]] = []
        self.new_id = sender.new_id
        self._tools = tools
        self._sender = sender
        self._begin(0)

    def _begin(self, start: int) -> None:
        self.inside = False
        self._source = Source(start=start)
        self._after_call = False
        """Nothing but white space has been read since the last call."""
        self._is_idle = False
        """Text is read and none of it is held."""
        self._broken: _Broken | None = None
        self._kept: list[str] | None = None
        """The open block as it is written, while it can still become text."""
        self.opened = start
        self._run = self._answer()
        next(self._run)

    @property
    def calls(self) -> int:
        return self._sender.calls

    @property
    def rejected(self) -> int:
        return self._sender.rejected

    @property
    def tool(self) -> str | None:
        return self._sender.tool

    def reopen(self) -> None:
        self._sender.drop()
        self._sender.take()
        self._begin(self._source.fed)

    def feed(self, text: str) -> list[Piece]:
        if not text:
            return []
        source = self._source
        if self._is_idle and "<" not in text and text[-1] not in SPACE:
            at = source.offset
            source.feed(text)
            source.take(len(text))
            return [Text(at, text)]
        if self._kept is not None:
            self._kept.append(text)
        source.feed(text)
        next(self._run)
        return self._sender.take()

    def end(self) -> list[Piece]:
        self._source.ended = True
        next(self._run)
        if self.inside:
            tool = self._sender.tool or ""
            self._sender.drop()
            self._sender.rejected += 1
            if self._kept is not None and not self._sender.live:
                self._sender.reject(self.opened, "".join(self._kept), "unclosed", complete=False, tool=tool)
            self.inside = False
        elif not self._after_call:
            self._release(len(self._source.text))
        self._mend(complete=False)
        return self._sender.take()

    # --- text --------------------------------------------------------------------------------------------------------

    def _answer(self) -> Steps[None]:
        while True:
            tag = yield from self._text()
            self._mend(complete=False)
            self._keep()
            self.inside = True
            if tag.kind == "<tool_call>":
                self._source.take(tag.end)
                yield from self._pair()
            else:
                yield from self._functions(tag, is_paired=False)
            self.inside = False
            self._kept = None

    def _text(self) -> Steps[Tag]:
        """Reads text up to the tag that opens a block. White space that may stand before it is held."""
        source = self._source
        while True:
            if self._after_call:
                source.skip()
            start = source.seen
            at, solid = source.find_tag()
            if solid > start:
                self._release(solid)
            if at < 0:
                self._is_idle = source.at == source.seen and self._broken is None and not self._after_call
                yield
                self._is_idle = False
                continue
            look = self._marker(at)
            if look is WAIT and not source.ended:
                yield
            elif not isinstance(look, Tag):
                source.seen = at
                self._release(at + 1)
            elif look.kind != "</tool_call>":
                return look
            elif self._broken is not None:
                self._release(look.end)
                self._mend(complete=True)
            else:
                source.take(look.end)

    def _marker(self, at: int) -> Look:
        """The tag at the index if it means something in text."""
        look = tag_at(self._source.text, at)
        if look is None or look is WAIT or look.kind == "<tool_call>":
            return look
        if look.kind == "</tool_call>":
            return look if self._broken is not None or self._after_call else None
        if look.kind != "<function" or self._broken is not None:
            return None
        is_call = follows(self._source.text, look.end, _INSIDE_FUNCTION, ended=False)
        return WAIT if is_call is WAIT else look if is_call else None

    def _release(self, upto: int) -> None:
        """Text up to the index is text for good."""
        at, text = self._source.offset, self._source.take(upto)
        self._after_call = False
        if self._broken is None or self._sender.live:
            self._sender.text(at, text)
        else:
            self._broken.parts.append(text)

    def _keep(self) -> None:
        """A block begins, or the next call of one: from here on it may become text."""
        self._kept = [self._source.text[self._source.at :]]
        self.opened = self._source.offset

    def _break(self, why: str) -> None:
        """The open block is text, as far as it was read and up to its end."""
        assert self._kept is not None
        read = "".join(self._kept)[: self._source.offset - self.opened]
        text = read.rstrip(SPACE)  # what is white space may stand before the next block
        self._source.unread(read[len(text) :])
        self._broken = _Broken(self.opened, why, self._sender.tool or "")
        self._sender.drop()
        self._sender.rejected += 1
        self._after_call = False
        if self._sender.live:
            self._sender.text(self.opened, text)
        else:
            self._broken.parts.append(text)

    def _mend(self, *, complete: bool) -> None:
        """The broken block has ended."""
        if (broken := self._broken) is not None and broken.parts:
            self._sender.reject(broken.at, "".join(broken.parts), broken.why, complete=complete, tool=broken.tool)
        self._broken = None

    # --- blocks ------------------------------------------------------------------------------------------------------

    def _pair(self) -> Steps[None]:
        """A block from behind `<tool_call>`."""
        if (yield from self._source.peek()) == "{":
            try:
                yield from read_json_call(self._source, self._tools, self._open, self._sender.arguments)
            except BrokenCall as broken:
                yield from self._give_up(broken.why)
                return
            tag = yield from self._behind_call("}")
        else:
            tag = yield from next_tag(self._source)
            if tag is None or tag.kind != "<function":
                self._break("no call")
                return
        if tag is not None:
            yield from self._functions(tag, is_paired=True)

    def _functions(self, tag: Tag, *, is_paired: bool) -> Steps[None]:
        """Calls one behind the other, from the first one's `<function=…>` on."""
        call: Tag | None = tag
        while call is not None:
            self._source.take(call.end)
            self._open(call.name)
            ender = yield from read_parameters(
                self._source, self._tools, call.name, self._sender.arguments, is_paired=is_paired
            )
            if ender.kind == "</function>" and not is_paired:
                self._source.take(ender.end)
                self._finish()
                return
            call = yield from self._behind_call()

    def _behind_call(self, more: str = "") -> Steps[Tag | None]:
        """Finishes the call that has been read; gives the `<function=…>` of the next one in its block."""
        while True:
            yield from self._source.peek(SPACE + more)
            tag = yield from next_tag(self._source)
            if tag is None or tag.kind not in _PARAMETER_ENDS:
                break
            self._source.take(tag.end)
        self._finish()
        if tag is None or tag.kind in ("<tool_call>", "<parameter"):
            return None
        if tag.kind == "<function":
            self._keep()
            return tag
        self._source.take(tag.end)
        self.spans[-1] = (self.spans[-1][0], self._source.offset)
        return None

    def _open(self, name: str) -> None:
        self._sender.open(name)
        if self._sender.has_sent:
            self._kept = None

    def _finish(self) -> None:
        self._sender.finish()
        self.spans.append((self.opened, self._source.offset))
        self._after_call = True

    def _give_up(self, why: str) -> Steps[None]:
        """The JSON does not parse."""
        if not self._sender.has_sent:
            self._break(why)
            return
        self._sender.drop()
        self._sender.rejected += 1
        source = self._source
        while True:
            at = source.text.find("<", source.at)
            source.take(at if at >= 0 else len(source.text))
            tag = (yield from next_tag(source)) if at >= 0 else None
            if tag is not None and tag.kind in ("</tool_call>", "<tool_call>"):
                break
            if at >= 0:
                source.take(source.at + 1)
            else:
                yield
        if tag.kind == "</tool_call>":
            source.take(tag.end)
        self._after_call = True
