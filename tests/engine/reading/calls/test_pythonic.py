from __future__ import annotations

from typing import Any

import pytest

from tandem.engine.text.reading.calls import Text
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart
from tests.engine.reading.calls.reading import codec, hear, pythonic_calls, tool

TOOLS = [tool("f", a="integer", s="string")]
MODES = pytest.mark.parametrize("live", [True, False])


@pytest.mark.spec("API-124", "API-105")
@MODES
@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[f(a=1, b='x'), g()]", [("f", {"a": 1, "b": "x"}), ("g", {})]),
        (" [ns.f(a='07',\n s=None)] \n", [("ns.f", {"a": "07", "s": None})]),
        ("[f(a='07', s=5, t=(1, -2.5), u={'k': [true, False, null]})]",
         [("f", {"a": 7, "s": "5", "t": [1, -2.5], "u": {"k": [True, False, None]}})]),
        (r"[f(s='a\d\n')]", [("f", {"s": "a\\d\n"})]),
        ("[f(a=1, a=2)]", [("f", {"a": 1})]),
    ],
)  # fmt: skip
def test_a_list_of_calls(text: str, calls: list[tuple[str, Any]], live: bool) -> None:
    heard = hear(pythonic_calls, TOOLS, text, live=live)
    assert [(call.name, call.values) for call in heard.calls] == calls
    assert heard.text == ""


@pytest.mark.spec("API-124")
@MODES
@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]", "[]", "[link](http://x)", "f(a=1)", "[f(1)]", "[f(**{'a': 1})]", "[f(a=g())]", "[f(a=1e999)]",
        "[f(a=b)]", "[f(a={1})]", "[f(a=b'x')]", "[f(a=1j)]", "[f(a=...)]", "[f(a={1: 2})]", "[f(a=1), 2]",
        "[f(a=1", "see [f(a=1)]", "[f(a=f'{x}')]", "[(lambda: 0)()]", "<|tool_call_start|>[f(a=1)", "<|tool_call",
        "[f(a=1)] and more", " \n", "[f(a=" + "[" * 500 + "]" * 500 + ")]",
    ],
)  # fmt: skip
def test_anything_else_is_text(text: str, live: bool) -> None:
    assert hear(pythonic_calls, TOOLS, text, live=live).parts == ((0, text),)


@pytest.mark.spec("API-124", "API-112")
@MODES
def test_between_markers_with_text_around(live: bool) -> None:
    text = "Let me see.\n<|tool_call_start|>[f(a=1)]<|tool_call_end|>\nSo <|tool_call_start|>no<|tool_call_end|>."
    heard = hear(pythonic_calls, TOOLS, *text, live=live)
    assert [each if isinstance(each, tuple) else each.arguments for each in heard.parts] == [
        (0, "Let me see."),
        '{"a":1}',
        (text.index("So"), "So <|tool_call_start|>no<|tool_call_end|>."),
    ]


def test_text_that_cannot_be_a_list_is_not_held() -> None:
    reader = codec(pythonic_calls, TOOLS, live=True)
    assert reader.feed("[1") == [Text(0, "[1")]
    assert reader.feed(", 2]") == [Text(2, ", 2]")]
    assert reader.end() == []


def test_a_call_goes_out_at_its_marker() -> None:
    reader = codec(pythonic_calls, TOOLS, live=True)
    assert reader.feed("<|tool_call_start|>[f(a=1)]") == []
    assert reader.inside
    assert reader.feed("<|tool_call_end|>") == [CallStart(0, "call_0", "f"), CallArguments(0, '{"a":1}'), CallEnd(0)]
    assert (reader.inside, reader.calls) == (False, 1)
