"""The calls of models that write a Python list of them: `[f(a=1, b="x"), g()]`.

Llama 3.2 makes it the whole answer. LFM2 puts it between two markers, and text may stand around those. A list is read
when it is complete, by Python's own parser, and only if it holds nothing but calls with literal keyword arguments;
anything else is text. So calls go out whole, live or not, and what was cut is text.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem.engine.text.reading.calls.pieces import CallCodec, Piece
from tandem.engine.text.reading.calls.schemas import ToolSchemas
from tandem.engine.text.reading.calls.sender import Sender
from tandem.engine.text.reading.calls.source import SPACE, Source, Steps
from tandem.engine.text.reading.calls.values import quoted, retyped

__all__ = ["pythonic_calls"]

_OPEN, _CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
_FIRST_CALL = re.compile(r"\[[ \t\r\n]{0,64}[^\W\d][\w.]{0,199}[ \t]{0,8}\(")
_FIRST_CALL_BEGUN = re.compile(r"\[[ \t\r\n]{0,64}(?:[^\W\d][\w.]{0,199}[ \t]{0,8})?")
_JSON_NAMES = {"true": True, "false": False, "null": None}


def pythonic_calls(tools: Sequence[Mapping[str, Any]], *, live: bool, new_id: Callable[[], str]) -> CallCodec:
    """The codec of `--tool-format pythonic`; `live` makes no difference."""
    return _PythonicCalls(ToolSchemas(tools), Sender(live=False, new_id=new_id))


class _PythonicCalls:
    tool = None
    """A list is read when it is whole."""

    def __init__(self, tools: ToolSchemas, sender: Sender) -> None:
        self.spans: list[tuple[int, int]] = []
        self.new_id = sender.new_id
        self.opened = 0
        self._tools = tools
        self._sender = sender
        self._begin(0)

    def _begin(self, start: int) -> None:
        self.inside = False
        self._source = Source(start=start)
        self._after_call = False
        """Nothing but white space has been read since the last call."""
        self._list: _Held | None = None
        self._run = self._answer()
        next(self._run)

    @property
    def calls(self) -> int:
        return self._sender.calls

    @property
    def rejected(self) -> int:
        return self._sender.rejected

    def reopen(self) -> None:
        self._sender.take()
        self._begin(self._source.fed)

    def feed(self, text: str) -> list[Piece]:
        self._source.feed(text)
        next(self._run)
        return self._sender.take()

    def end(self) -> list[Piece]:
        self._source.ended = True
        next(self._run)
        if self._list is not None:
            text, marked = "".join(self._list.parts), self._list.marked
            if marked or not self._send(text):
                self._reject(self._list.at, text, "unclosed" if marked else "no calls", complete=not marked)
        elif not self._after_call:
            self._release(len(self._source.text))
        self.inside = False
        self._list = None
        return self._sender.take()

    def _answer(self) -> Steps[None]:
        if (yield from self._is_list()):
            # The whole answer is the list: `end` reads it.
            yield from self._hold(marked=False)
        while True:
            yield from self._text()
            yield from self._hold(marked=True)

    def _is_list(self) -> Steps[bool]:
        """Whether the answer begins like a list of calls."""
        source = self._source
        while True:
            text = source.text[source.seen :].lstrip(SPACE)
            source.seen = len(source.text) - len(text)
            if text and not _FIRST_CALL_BEGUN.fullmatch(text):
                return _FIRST_CALL.match(text) is not None
            yield

    def _text(self) -> Steps[None]:
        """Reads text up to an opening marker; white space that may stand before it is held."""
        source = self._source
        while True:
            if self._after_call:
                source.skip()
            start = source.seen
            at, solid = source.find_tag()
            if solid > start:
                self._release(solid)
            if at < 0:
                yield
            elif source.text.startswith(_OPEN, at):
                return
            elif _OPEN.startswith(source.text[at:]) and not source.ended:
                yield
            else:
                self._release(at + 1)

    def _hold(self, *, marked: bool) -> Steps[None]:
        """Holds a list up to its closing marker, and sends what it is."""
        source = self._source
        held = self._list = _Held(source.offset, marked, [])
        self.inside, self.opened = True, source.offset
        while True:
            at = source.text.find("<", source.seen) if marked else -1
            if at < 0:
                held.parts.append(source.take(len(source.text)))
                yield
            elif source.text.startswith(_CLOSE, at):
                held.parts.append(source.take(at + len(_CLOSE)))
                break
            elif _CLOSE.startswith(source.text[at:]) and not source.ended:
                source.seen = at
                yield
            else:
                held.parts.append(source.take(at + 1))
        self._list = None
        self.inside = False
        text = "".join(held.parts)
        if not self._send(text.strip(SPACE)[len(_OPEN) : -len(_CLOSE)]):
            self._after_call = False
            self._reject(held.at, text, "no calls", complete=True)

    def _reject(self, at: int, text: str, why: str, *, complete: bool) -> None:
        self._sender.rejected += 1
        self._sender.reject(at, text, why, complete=complete, tool="")

    def _release(self, upto: int) -> None:
        at, text = self._source.offset, self._source.take(upto)
        self._after_call = False
        self._sender.text(at, text)

    def _send(self, text: str) -> bool:
        """Send the list's calls; False if it is none."""
        calls = _parsed(text)
        for call in calls:
            self._sender.open(call.name)
            members = (
                f"{quoted(key)}:{retyped(raw, self._tools.types(call.name, key))}"
                for key, raw in call.arguments.items()
            )
            self._sender.arguments(f"{{{','.join(members)}}}")
            self._sender.finish()
            self.spans.append((self.opened, self._source.offset))
            self._after_call = True
        return bool(calls)


@dataclass(slots=True)
class _Held:
    """A list under way: the offset of its first character, and its text so far."""

    at: int
    marked: bool
    parts: list[str]


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: dict[str, str]
    """JSON by key."""


def _parsed(text: str) -> list[_Call]:
    """The calls of a list; empty if it is not one, or holds anything else."""
    try:
        with warnings.catch_warnings():
            # The parser warns of a `\d` in a string, with the text: an answer is nobody's log line.
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.List):
            return []
        return [_call(node) for node in tree.elts]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _call(node: ast.expr) -> _Call:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("no call with keyword arguments alone")
    arguments: dict[str, str] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("no literal arguments")
        arguments.setdefault(keyword.arg, _json(_literal(keyword.value)))
    return _Call(_dotted(node.func), arguments)


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(inner, name):
            return f"{_dotted(inner)}.{name}"
        case _:
            raise ValueError("no name")


def _literal(node: ast.expr) -> Any:
    """The value of a literal that JSON has too."""
    match node:
        case ast.Constant(str() | int() | float() | None as value):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)) if not isinstance(value, bool):
            return -value
        case ast.Name(name) if name in _JSON_NAMES:
            return _JSON_NAMES[name]
        case ast.List(elements) | ast.Tuple(elements):
            return [_literal(each) for each in elements]
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            return {_key(key): _literal(value) for key, value in pairs}
        case _:
            raise ValueError("no literal")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("no key of a JSON object")


def _json(value: Any) -> str:
    """`ValueError` for an infinity. Half a surrogate pair, which no UTF-8 holds, is escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if _is_utf8(text) else json.dumps(value, allow_nan=False)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
