"""What is held until it is judged, and that letting it go as it is reads as if nothing had been held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.masking import Secret, SecretMask
from tandem.engine.text.reading.calls import pythonic_calls, xml_calls
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart, Content, Delta
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.text.reading.rules import ReadingRules
from tests.engine.reading.calls.reading import block, texts_with_tags
from tests.engine.reading.test_reader import TEXT, pieces_of, token

BROKEN = "<tool_call>{no</tool_call>"
FORMS = {"xml": xml_calls, "pythonic": pythonic_calls}


def reader_of(form: str = "xml", *, holds: bool = True, closers: bool = False, mask: bool = False, **more: Any) -> Any:
    numbers = count()
    secret = SecretMask([Secret("api_key", "s<x", "s")]).stage() if mask else None
    rules = ReadingRules(holds=holds, drops_closers=closers, mask=secret)
    codec = FORMS[form]([], live=False, new_id=lambda: f"c{next(numbers)}")
    return AnswerReader(TEXT, thinking="off", calls=codec, rules=rules, **more)


def feed(reader: AnswerReader, pieces: Sequence[str | bytes]) -> list[Delta]:
    return [delta for piece in pieces if not reader.stopped for delta in reader.feed(token(piece))]


def told(deltas: Sequence[Delta]) -> tuple[str, list[tuple[Any, ...]]]:
    """The joined text, and the calls: of each its index, id, name and arguments."""
    calls: list[tuple[Any, ...]] = []
    for delta in deltas:
        match delta:
            case CallStart(index, id, name):
                calls.append((index, id, name, ""))
            case CallArguments(_, text):
                calls[-1] = (*calls[-1][:3], calls[-1][3] + text)
            case _:
                pass
    return "".join(delta.text for delta in deltas if isinstance(delta, Content)), calls


@pytest.mark.spec("MON-074", "MON-075", "MON-076", "ENG-184")
@settings(max_examples=50)
@given(texts_with_tags(), st.sampled_from(["xml", "pythonic"]), st.sets(st.integers(1, 60)), st.booleans())
def test_what_is_let_go_as_it_is_reads_as_if_nothing_had_been_held(
    texts: list[str], form: str, places: set[int], filtered: bool
) -> None:
    options: dict[str, Any] = {"closers": filtered, "mask": filtered, "stops": ["x7"] if filtered else []}
    pieces = pieces_of("".join(texts), sorted(places))
    plain, held = reader_of(form, holds=False, **options), reader_of(form, **options)
    wanted = feed(plain, pieces) + plain.end()
    heard = feed(held, pieces) + held.end()
    assert not any(isinstance(delta, CallStart) for delta in heard)
    heard += held.release(held.held)
    assert told(heard) == told(wanted)
    assert held.held == ()


@pytest.mark.spec("MON-075")
@pytest.mark.parametrize(
    ("text", "why", "complete", "name"),
    [
        (BROKEN, "bad json", True, ""),
        ('<tool_call>{"name": "f", "arguments": {no</tool_call>', "bad json", True, "f"),
        ('<tool_call>{"arguments": {}}</tool_call>', "no name", True, ""),
        ("<tool_call>f()</tool_call>", "no call", True, ""),
        ("<tool_call>{no", "bad json", False, ""),
        ("<tool_call><function=f><parameter=x>1", "unclosed", False, "f"),
        ("<tool_call>", "unclosed", False, ""),
    ],
)
def test_a_block_that_cannot_be_read_says_why_and_does_not_leak(text: str, why: str, complete: bool, name: str) -> None:
    reader = reader_of()
    assert told(feed(reader, ["a", *text, *("\nb" if complete else "")]) + reader.end()) == ("a", [])
    [held] = reader.held
    assert (held.why, held.complete, held.name, held.text, held.at) == (why, complete, name, text, 1)
    assert told(reader.release(reader.held)) == (text + ("\nb" if complete else ""), [])


@pytest.mark.spec("MON-075")
def test_a_list_that_holds_no_calls_is_held_too() -> None:
    for text, why in (("[f(x]", "no calls"), ("<|tool_call_start|>[1]<|tool_call_end|>", "no calls")):
        reader = reader_of("pythonic")
        assert told(feed(reader, [text]) + reader.end()) == ("", [])
        assert [(each.why, each.text) for each in reader.held] == [(why, text)]
    reader = reader_of("pythonic")
    feed(reader, ["<|tool_call_start|>[f("])
    reader.end()
    assert [(each.why, each.complete) for each in reader.held] == [("unclosed", False)]


@pytest.mark.spec("MON-076", "MON-077", "MON-144")
def test_items_go_out_in_place_of_what_is_held() -> None:
    reader = reader_of()
    heard = feed(reader, ["a", block("f", x="1"), BROKEN, "b", block("g")])
    heard += reader.end()
    f, broken, g = reader.held
    assert [each.text.startswith("<tool_call>") for each in (f, broken, g)] == [True] * 3
    assert told(heard) == ("a", [])
    mended = [replace(broken, why=None, name="h", arguments="{}"), replace(broken, why=None, name="i", arguments="{}")]
    heard = reader.release([replace(f, arguments='{"x":2}'), *mended, g])
    assert told(heard) == (
        "b",
        [(0, "c0", "f", '{"x":2}'), (1, "c2", "h", "{}"), (2, "c3", "i", "{}"), (3, "c1", "g", "{}")],
    )
    assert [type(delta) for delta in heard[:3]] == [CallStart, CallArguments, CallEnd]


@pytest.mark.spec("MON-077", "MON-133")
def test_behind_a_reopening_the_calls_are_numbered_from_those_that_were_sent() -> None:
    reader = reader_of()
    feed(reader, ["a", block("f"), BROKEN, "lost"])
    reader.end()
    reader.reopen()
    assert reader.held == ()
    assert not reader.in_call
    heard = feed(reader, [" b", block("g", x="1"), block("h")]) + reader.end()
    heard += reader.release(reader.held)
    assert told(heard) == (" b", [(0, "c1", "g", '{"x":"1"}'), (1, "c2", "h", "{}")])
    reader.reopen()
    heard = feed(reader, [block("k")]) + reader.end()
    assert [call[0] for call in told(reader.release(reader.held))[1]] == [2]


@pytest.mark.spec("MON-107", "MON-108", "MON-080")
@pytest.mark.parametrize("live", [True, False])
def test_an_open_block_that_is_dropped_says_nothing_more(live: bool) -> None:
    numbers = count()
    codec = xml_calls([], live=live, new_id=lambda: f"c{next(numbers)}")
    reader = AnswerReader(TEXT, thinking="off", calls=codec, rules=ReadingRules(holds=not live))
    feed(reader, [block("f"), "<tool_call><function=g><parameter=x>", "a"])
    assert reader.in_call
    reader.drop_block()
    assert not reader.in_call
    assert reader.end() == []
    assert [each.name for each in reader.held] == ([] if live else ["f"])
    reader.reopen()
    heard = feed(reader, [block("h")]) + reader.end()
    heard += reader.release(reader.held)
    assert [call[:3] for call in told(heard)[1]] == [(2 if live else 0, "c2" if live else "c1", "h")]


@pytest.mark.spec("MON-078", "API-119")
def test_the_only_call_asked_for_ends_the_text_while_it_is_held() -> None:
    reader = reader_of(single_call=True)
    feed(reader, ["a", block("f"), block("g")])
    assert reader.stopped
    assert reader.ended_by_call
    assert [each.name for each in reader.held] == ["f"]
    assert reader.end() == []
    reader.reopen()
    assert not reader.stopped
    feed(reader, [block("h")])
    assert told(reader.release(reader.held)) == ("", [(0, "c1", "h", "{}")])


@pytest.mark.spec("MON-079")
def test_a_block_that_a_stop_string_cuts_is_held_as_it_is_written() -> None:
    reader = reader_of(stops=["STOP"])
    feed(reader, ["a<tool_call>{", '"name"', "STOP", "rest"])
    assert reader.stopped
    assert not reader.ended_by_call
    assert [(each.why, each.complete, each.text) for each in reader.held] == [("unclosed", False, '<tool_call>{"name"')]
    assert told(reader.release(reader.held)) == ('<tool_call>{"name"', [])
