"""The JSON form: `{"name": …, "arguments": {…}}` inside a `<tool_call>` pair, read while it is written (API-108).

The text of a value is sent as it stands. Only what JSON does not allow but models write is mended: a raw control
character in a string, such as a line break, is escaped. Arguments before the name wait for it; of two members with one
key the first counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tandem.engine.text.reading.calls.schemas import ToolSchemas, Types
from tandem.engine.text.reading.calls.source import Source, Steps
from tandem.engine.text.reading.calls.values import checked, escaped, is_text, retyped

__all__ = ["BrokenCall", "read_json_call"]

_RUN = re.compile(r'(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_NESTED = re.compile(r'["{}\[\]<]')
_SCALAR = re.compile(r"[-+.\w]*")
_LINE_CLOSED = "\n</tool_call>"

Send = Callable[[str], None]


class BrokenCall(Exception):
    """The text is no call of this form; it has been read up to where that shows."""

    def __init__(self, why: str = "bad json") -> None:
        super().__init__(why)
        self.why = why


def read_json_call(source: Source, tools: ToolSchemas, open_call: Callable[[str], None], send: Send) -> Steps[None]:
    """Reads the object, from its brace to the one that closes it. `open_call` gets the name before anything is sent."""
    source.take(source.at + 1)
    name: str | None = None
    waiting: str | None = None
    has_arguments = False
    first = True
    while (key := (yield from _next_key(source, first=first))) is not None:
        first = False
        if key == '"name"' and name is None:
            name = _name((yield from _value(source)))
            open_call(name)
            if waiting is not None:
                _send_whole(waiting, tools, name, send)
        elif key == '"arguments"' and not has_arguments:
            has_arguments = True
            opening = yield from source.peek()
            if name is None:
                waiting = yield from _value(source)
            elif opening == "{":
                yield from _arguments(source, tools, name, send)
            else:
                _send_whole((yield from _value(source)), tools, name, send)
        else:
            yield from _value(source)
    if name is None:
        raise BrokenCall("no name")
    if not has_arguments:
        send("{}")


def _name(raw: str) -> str:
    if not raw.startswith('"') or raw == '""':
        raise BrokenCall("no name")
    return str(_decoded(raw))


def _decoded(raw: str) -> object:
    try:
        value = checked(raw)
        if isinstance(value, str):
            value.encode()  # refuses half a surrogate pair
    except ValueError:
        raise BrokenCall from None
    return value


def _send_whole(raw: str, tools: ToolSchemas, name: str, send: Send) -> None:
    """Arguments that are complete: an object, null, or a string that holds an object."""
    if raw == "null":
        send("{}")
        return
    inner = _decoded(raw) if raw.startswith('"') else raw
    parts: list[str] = []
    source = Source(str(inner), ended=True)
    # It is all there: a reader that asks for more has found no object.
    for _ in _only_arguments(source, tools, name, parts.append):
        raise BrokenCall
    send("".join(parts))


def _only_arguments(source: Source, tools: ToolSchemas, name: str, send: Send) -> Steps[None]:
    if (yield from source.peek()) != "{":
        raise BrokenCall
    yield from _arguments(source, tools, name, send)
    source.skip()
    if source.at < len(source.text):
        raise BrokenCall


def _arguments(source: Source, tools: ToolSchemas, name: str, send: Send) -> Steps[None]:
    source.take(source.at + 1)
    keys: set[str] = set()
    while (key := (yield from _next_key(source, first=not keys))) is not None:
        decoded = str(json.loads(key))
        opening = yield from source.peek()
        if decoded in keys:
            yield from _value(source)
            continue
        prefix = f"{',' if keys else '{'}{key}:"
        keys.add(decoded)
        types = tools.types(name, decoded)
        if opening == '"' and _goes_out_in_pieces(types):
            send(prefix + '"')
            yield from _string(source, send)
            send('"')
        else:
            send(prefix + retyped((yield from _value(source)), types))
    send("}" if keys else "{}")


def _goes_out_in_pieces(types: Types) -> bool:
    """A value that is a string already stays one, unless the schema rules strings out."""
    return types is None or is_text(types) or "string" in types


def _next_key(source: Source, *, first: bool) -> Steps[str | None]:
    """The next member's key, as written, read with its colon; None behind the brace that closes the object."""
    char = yield from source.peek()
    if char == "}":
        source.take(source.at + 1)
        return None
    if not first:
        if char != ",":
            raise BrokenCall
        source.take(source.at + 1)
        char = yield from source.peek()
    if char != '"':
        raise BrokenCall
    key = yield from _value(source)
    if not (yield from source.expect(":")):
        raise BrokenCall
    return key


def _value(source: Source) -> Steps[str]:
    """One JSON value, whole."""
    parts: list[str] = []
    opening = yield from source.peek()
    if opening == '"':
        parts.append('"')
        yield from _string(source, parts.append)
        parts.append('"')
        return "".join(parts)
    if opening in "{[":
        yield from _nested(source, parts.append)
    else:
        yield from _scalar(source, parts.append)
    raw = "".join(parts)
    _decoded(raw)
    return raw


def _string(source: Source, send: Send) -> Steps[None]:
    """From the opening quote to the closing one: the text between."""
    source.take(source.at + 1)
    while True:
        run = _RUN.match(source.text, source.at)
        if run and run.end() > source.at:
            send(source.take(run.end()))
        text, at = source.text, source.at
        if at == len(text):
            yield
        elif text[at] == '"':
            source.take(at + 1)
            return
        elif text[at] == "\\":
            if not _ESCAPE_BEGUN.fullmatch(text, at):
                raise BrokenCall
            yield
        elif text[at] == "\n" and _LINE_CLOSED.startswith(text[at : at + len(_LINE_CLOSED)]):
            # No JSON string holds a raw line break. One is mended, but not across the end of the block.
            if len(text) - at >= len(_LINE_CLOSED):
                raise BrokenCall
            yield
        else:
            send(escaped(source.take(at + 1)))


def _nested(source: Source, send: Send) -> Steps[None]:
    """An object or a list, up to the bracket that closes it; whether the brackets match is seen later."""
    depth = 0
    while True:
        match = _NESTED.search(source.text, source.at)
        if match is None:
            send(source.take(len(source.text)))
            yield
            continue
        send(source.take(match.start()))
        if match[0] == "<":
            raise BrokenCall
        if match[0] == '"':
            send('"')
            yield from _string(source, send)
            send('"')
            continue
        send(source.take(match.end()))
        depth += 1 if match[0] in "{[" else -1
        if depth == 0:
            return


def _scalar(source: Source, send: Send) -> Steps[None]:
    while True:
        match = _SCALAR.match(source.text, source.at)
        end = match.end() if match else source.at
        send(source.take(end))
        if end < len(source.text):
            return
        yield
