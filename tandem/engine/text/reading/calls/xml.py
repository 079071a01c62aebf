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
from typing import Any

from tandem.engine.text.reading.calls.json_form import BrokenCall, read_json_call
from tandem.engine.text.reading.calls.pieces import CallCodec, Piece, Text
from tandem.engine.text.reading.calls.schemas import ToolSchemas
from tandem.engine.text.reading.calls.sender import Sender
from tandem.engine.text.reading.calls.source import SPACE, Source, Steps
from tandem.engine.text.reading.calls.tags import WAIT, Look, Tag, follows, tag_at
from tandem.engine.text.reading.calls.values import escaped, is_text, quoted, typed_as
from tandem.engine.text.reading.calls.xml_value import read_value

__all__ = ["xml_calls"]

_INSIDE_FUNCTION = frozenset({"<parameter", "</function>", "</tool_call>"})
_PARAMETER_ENDS = frozenset({"</parameter>", "</function>"})


def xml_calls(tools: Sequence[Mapping[str, Any]], *, live: bool, new_id: Callable[[], str]) -> CallCodec:
    """The codec of `--tool-format xml`. `live`: calls go out while they are written, else whole (API-113)."""
    return _XmlCalls(ToolSchemas(tools), Sender(live=live, new_id=new_id))


class _XmlCalls:
    def __init__(self, tools: ToolSchemas, sender: Sender) -> None:
        self.inside = False
        self._tools = tools
        self._sender = sender
        self._source = Source()
        self._after_call = False
        """Nothing but white space has been read since the last call."""
        self._is_idle = False
        """Text is read and none of it is held."""
        self._broken: list[str] | None = None
        """The text of a block that did not parse, until its end; empty where it goes out at once."""
        self._broken_at = 0
        self._kept: list[str] | None = None
        """The open block as it is written, while it can still become text."""
        self._kept_at = 0
        self._is_paired = False
        self._run = self._answer()
        next(self._run)

    @property
    def calls(self) -> int:
        return self._sender.calls

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
            self._sender.drop()
            if self._kept is not None and not self._sender.live:
                self._sender.text(self._kept_at, "".join(self._kept))
            self.inside = False
        elif not self._after_call:
            self._release(len(self._source.text))
        self._mend()
        return self._sender.take()

    # --- text --------------------------------------------------------------------------------------------------------

    def _answer(self) -> Steps[None]:
        while True:
            tag = yield from self._text()
            self._mend()
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
                self._mend()
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
            self._broken.append(text)

    def _keep(self) -> None:
        """A block begins, or the next call of one: from here on it may become text."""
        self._kept = [self._source.text[self._source.at :]]
        self._kept_at = self._source.offset

    def _break(self) -> None:
        """The open block is text, as far as it was read and up to its end."""
        assert self._kept is not None
        read = "".join(self._kept)[: self._source.offset - self._kept_at]
        text = read.rstrip(SPACE)  # what is white space may stand before the next block
        self._source.unread(read[len(text) :])
        self._sender.drop()
        self._after_call = False
        self._broken, self._broken_at = [], self._kept_at
        if self._sender.live:
            self._sender.text(self._kept_at, text)
        else:
            self._broken.append(text)

    def _mend(self) -> None:
        """The broken block has ended."""
        if self._broken:
            self._sender.text(self._broken_at, "".join(self._broken))
        self._broken = None

    # --- blocks ------------------------------------------------------------------------------------------------------

    def _pair(self) -> Steps[None]:
        """A block from behind `<tool_call>`."""
        if (yield from self._source.peek()) == "{":
            try:
                yield from read_json_call(self._source, self._tools, self._open, self._sender.arguments)
            except BrokenCall:
                yield from self._give_up()
                return
            tag = yield from self._behind_call("}")
        else:
            tag = yield from self._tag()
            if tag is None or tag.kind != "<function":
                self._break()
                return
        if tag is not None:
            yield from self._functions(tag, is_paired=True)

    def _functions(self, tag: Tag, *, is_paired: bool) -> Steps[None]:
        """Calls one behind the other, from the first one's `<function=…>` on."""
        self._is_paired = is_paired
        next_tag: Tag | None = tag
        while next_tag is not None:
            self._source.take(next_tag.end)
            self._open(next_tag.name)
            ender = yield from self._parameters(next_tag.name)
            if ender.kind == "</function>" and not is_paired:
                self._source.take(ender.end)
                self._finish()
                return
            next_tag = yield from self._behind_call()

    def _behind_call(self, more: str = "") -> Steps[Tag | None]:
        """Finishes the call that has been read; gives the `<function=…>` of the next one in its block."""
        while True:
            yield from self._source.peek(SPACE + more)
            tag = yield from self._tag()
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
        return None

    def _tag(self) -> Steps[Tag | None]:
        """The tag that begins here, unread."""
        while (look := tag_at(self._source.text, self._source.at)) is WAIT:
            yield
        return look

    def _open(self, name: str) -> None:
        self._sender.open(name)
        if self._sender.has_sent:
            self._kept = None

    def _finish(self) -> None:
        self._sender.finish()
        self._after_call = True

    def _give_up(self) -> Steps[None]:
        """The JSON does not parse."""
        if not self._sender.has_sent:
            self._break()
            return
        self._sender.drop()
        source = self._source
        while True:
            at = source.text.find("<", source.at)
            source.take(at if at >= 0 else len(source.text))
            tag = (yield from self._tag()) if at >= 0 else None
            if tag is not None and tag.kind in ("</tool_call>", "<tool_call>"):
                break
            if at >= 0:
                source.take(source.at + 1)
            else:
                yield
        if tag.kind == "</tool_call>":
            source.take(tag.end)
        self._after_call = True

    # --- the XML form ------------------------------------------------------------------------------------------------

    def _parameters(self, name: str) -> Steps[Tag]:
        """Reads a function's parameters; the unread tag that ends it."""
        source, keys = self._source, set[str]()
        while True:
            at = source.text.find("<", source.at)
            source.take(at if at >= 0 else len(source.text))
            if at < 0:
                yield
                continue
            tag = yield from self._tag()
            if tag is None or tag.kind == "</parameter>":
                source.take(source.at + 1)
            elif tag.kind == "<parameter":
                source.take(tag.end)
                yield from self._parameter(name, tag.name, keys)
            else:
                self._sender.arguments("}" if keys else "{}")
                return tag

    def _parameter(self, name: str, key: str, keys: set[str]) -> Steps[None]:
        paired = self._is_paired
        if key in keys:
            yield from read_value(self._source, lambda _: None, is_paired=paired)
            return
        send = self._sender.arguments
        prefix = f"{',' if keys else '{'}{quoted(key)}:"
        keys.add(key)
        types = self._tools.types(name, key)
        if is_text(types):
            send(prefix + '"')
            yield from read_value(self._source, lambda text: send(escaped(text)), is_paired=paired)
            send('"')
        else:
            parts: list[str] = []
            yield from read_value(self._source, parts.append, is_paired=paired)
            send(prefix + typed_as("".join(parts), types))
