"""Runs a codec over a split text, and reads what it says as strictly as the worst client does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, count, pairwise
from typing import Any

from hypothesis import strategies as st

from tandem.engine.text.reading.calls import CallCodec, Piece, Text, pythonic_calls, xml_calls
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart

__all__ = [
    "Call",
    "Heard",
    "Make",
    "block",
    "codec",
    "cuts",
    "hear",
    "hear_pieces",
    "pythonic_calls",
    "run",
    "split_at",
    "texts_with_tags",
    "tool",
    "xml_calls",
]

Make = Callable[..., CallCodec]


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the client holds it: its arguments are the joined text."""

    id: str
    name: str
    arguments: str
    is_complete: bool

    @property
    def values(self) -> Any:
        return json.loads(self.arguments)


@dataclass(frozen=True, slots=True)
class Heard:
    """Runs of text and calls, in their order; neighbouring runs of text are one."""

    parts: tuple[tuple[int, str] | Call, ...]

    @property
    def calls(self) -> list[Call]:
        return [each for each in self.parts if isinstance(each, Call)]

    @property
    def complete(self) -> list[tuple[str, str]]:
        return [(call.name, call.arguments) for call in self.calls if call.is_complete]

    @property
    def text(self) -> str:
        return "".join(each[1] for each in self.parts if not isinstance(each, Call))


def hear_pieces(pieces: list[Piece]) -> Heard:
    """Fails on what breaks clients: a gap in the indexes, a second name, arguments without a call, a call not ended."""
    parts: list[tuple[int, str] | Call] = []
    opened = 0
    open_call = None
    for piece in pieces:
        match piece:
            case Text(at, text):
                assert text
                open_call = None  # a call may be left open for good, but nothing more comes of it
                last = parts[-1] if parts else None
                if isinstance(last, tuple) and last[0] + len(last[1]) == at:
                    parts[-1] = (last[0], last[1] + text)
                else:
                    parts.append((at, text))
            case CallStart(index, id_, name):
                assert index == opened
                assert id_
                assert name
                assert id_ not in [each.id for each in parts if isinstance(each, Call)]
                opened += 1
                open_call = Call(id_, name, "", False)
                parts.append(open_call)
            case CallArguments(index, text):
                assert text
                assert open_call is not None
                assert index == opened - 1
                open_call = Call(open_call.id, open_call.name, open_call.arguments + text, False)
                parts[-1] = open_call
            case CallEnd(index):
                assert open_call is not None
                assert index == opened - 1
                assert isinstance(json.loads(open_call.arguments), dict)
                parts[-1] = Call(open_call.id, open_call.name, open_call.arguments, True)
                open_call = None
    return Heard(tuple(parts))


def tool(name: str, **properties: Any) -> dict[str, Any]:
    """A tool; a property is a type's name or a schema."""
    schemas = {key: {"type": each} if isinstance(each, str) else each for key, each in properties.items()}
    return {
        "type": "function",
        "function": {"name": name, "description": "", "parameters": {"type": "object", "properties": schemas}},
    }


def codec(make: Make, tools: list[dict[str, Any]], *, live: bool) -> CallCodec:
    numbers = count()
    return make(tools, live=live, new_id=lambda: f"call_{next(numbers)}")


def run(make: Make, tools: list[dict[str, Any]], pieces: list[str], *, live: bool) -> tuple[list[Piece], CallCodec]:
    reader = codec(make, tools, live=live)
    out = [each for piece in pieces for each in reader.feed(piece)]
    out += reader.end()
    assert not reader.inside
    return out, reader


def hear(make: Make, tools: list[dict[str, Any]], *pieces: str, live: bool = True) -> Heard:
    out, reader = run(make, tools, list(pieces), live=live)
    heard = hear_pieces(out)
    assert reader.calls == len(heard.complete)
    source = "".join(pieces)
    for each in heard.parts:
        if not isinstance(each, Call):
            assert source[each[0] : each[0] + len(each[1])] == each[1]
    return heard


def split_at(text: str, *borders: int) -> list[str]:
    edges = sorted({0, len(text), *(each for each in borders if 0 <= each <= len(text))})
    return [text[low:high] for low, high in pairwise(edges)]


def cuts(text: str) -> Iterator[list[str]]:
    """Whole, in single characters, and cut at every two places; in a long text, at every two that a tag could span."""
    span = len(text) if len(text) < 64 else len("</tool_call>") + 1
    yield [text]
    yield list(text)
    for low, high in combinations(range(len(text) + 1), 2):
        if high - low <= span:
            yield split_at(text, low, high)


def block(name: str, **values: str) -> str:
    """A call in the strict form."""
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


_SCRAPS = [
    "<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=s>", "<parameter=n>", "</parameter>",
    "\n", "\n", " ", "\r\n", "x", "7", "<", "</", "<b>", '"', "\\", "{", "}", ",", ":", '{"name": "f", ',
    '"arguments": ', '{"s": "', '"n": 1', "\\n", "é😀", "[f(s='a')", "]", "<|tool_call_start|>", "<|tool_call_end|>",
]  # fmt: skip


def texts_with_tags() -> st.SearchStrategy[list[str]]:
    """Anything that can be put together from the forms' own pieces, as the pieces."""
    return st.lists(st.sampled_from(_SCRAPS) | st.text(max_size=3), max_size=24)
