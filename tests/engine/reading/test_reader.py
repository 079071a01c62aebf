from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.decoding.seams import Reader
from tandem.engine.fake import FakeText
from tandem.engine.text.prompt import Thinking
from tandem.engine.text.reading.calls import Text, xml_calls
from tandem.engine.text.reading.deltas import (
    Blank,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Delta,
    Reasoning,
    ReasoningEnd,
    ReasoningStart,
)
from tandem.engine.text.reading.reader import AnswerReader, PlainReader
from tandem.engine.text.reading.splitter import Splitter
from tandem.engine.verbs import TokenLogprob

TEXT = FakeText()


def token(piece: bytes | str) -> int:
    [known] = TEXT.vocabulary.ids(piece if isinstance(piece, bytes) else piece.encode())
    return known


def read(pieces: Sequence[bytes | str], stops: Sequence[str] = (), *, logprobs: bool = False) -> list[list[Delta]]:
    """The deltas of each token, then those of the end. The log-probability of token i is -i."""
    reader: Reader = PlainReader(TEXT, stops)
    out = []
    for at, piece in enumerate(pieces):
        entry = TokenLogprob(token(piece), float(-at)) if logprobs else None
        out.append(reader.feed(token(piece), entry))
    return [*out, reader.end()]


def texts(deltas: list[list[Delta]]) -> list[list[str]]:
    return [[delta.text for delta in batch if isinstance(delta, Content)] for batch in deltas]


def entries(deltas: list[list[Delta]]) -> list[list[float]]:
    return [
        [-entry.logprob for delta in batch if isinstance(delta, Content) for entry in delta.logprobs]
        for batch in deltas
    ]


@pytest.mark.spec("API-139", "ENG-095")
def test_a_character_in_pieces_waits_for_its_last_token() -> None:
    assert texts(read([b"\xf0\x9f", b"\x98", b"\x80", "한", "e", "\u0301"])) == [
        [],
        [],
        ["😀"],
        ["한"],
        ["e"],
        ["\u0301"],
        [],
    ]


@pytest.mark.spec("ENG-095")
def test_a_character_that_never_completes_is_one_replacement() -> None:
    assert texts(read(["a", b"\xf0\x9f", b"\x98"])) == [["a"], [], [], ["\ufffd"]]


@pytest.mark.spec("API-084", "ENG-093")
def test_a_stop_across_tokens_is_cut_and_none_of_it_is_sent() -> None:
    assert texts(read(["a E", "N", "D b"], ["END"])) == [["a "], [], [], []]
    assert texts(read(["a E", "N", "X"], ["END"])) == [["a "], [], ["ENX"], []]
    assert texts(read(["a E", "N"], ["END"])) == [["a "], [], ["EN"]]


@pytest.mark.spec("ENG-092")
def test_a_token_without_text_says_nothing() -> None:
    reader = PlainReader(TEXT)
    end = min(TEXT.end_ids)
    assert reader.feed(end, TokenLogprob(end, 0.0)) == []
    assert reader.feed(token("a"), TokenLogprob(token("a"), -1.0)) == [
        Content("a", (TokenLogprob(token("a"), -1.0),)),
    ]


@pytest.mark.spec("ENG-096")
@given(st.lists(st.binary(min_size=1, max_size=3), max_size=10))
def test_random_tokens_give_the_one_shot_decode_and_one_delta_each(pieces: list[bytes]) -> None:
    deltas = read(pieces)
    assert all(len(batch) <= 1 for batch in deltas)
    joined = b"".join(pieces).decode("utf-8", "replace")
    assert "".join(text for batch in texts(deltas) for text in batch) == joined


@pytest.mark.spec("ENG-082")
def test_log_probabilities_ride_with_the_text_of_their_token() -> None:
    assert entries(read(["a", b"\xf0\x9f", b"\x98", b"\x80", "b"], logprobs=True)) == [[0], [], [], [1, 2, 3], [4], []]


@pytest.mark.spec("ENG-082")
def test_a_held_token_keeps_its_entry_until_its_text_goes_out() -> None:
    assert entries(read(["a", "E", "N", "X"], ["END"], logprobs=True)) == [[0], [], [], [1, 2, 3], []]
    assert entries(read(["a", "E"], ["END"], logprobs=True)) == [[0], [], [1]]


@pytest.mark.spec("ENG-082")
def test_a_token_cut_before_its_first_character_drops_its_entry() -> None:
    assert entries(read(["a", " bE", "N", "D"], ["END"], logprobs=True)) == [[0], [1], [], [], []]


@pytest.mark.spec("ENG-082")
def test_an_entry_belongs_to_the_character_its_first_byte_is_in() -> None:
    # The unfinished character becomes U+FFFD when "S" comes, and the stop then cuts "S" alone.
    assert entries(read([b"\xf0\x9f", "S"], ["S"], logprobs=True)) == [[], [0], []]
    assert texts(read([b"\xf0\x9f", "S"], ["S"])) == [[], ["\ufffd"], []]


@pytest.mark.spec("ENG-082")
@given(st.lists(st.binary(min_size=1, max_size=3), max_size=10))
def test_without_a_stop_every_entry_goes_out_once_in_order(pieces: list[bytes]) -> None:
    deltas = read(pieces, ["never"], logprobs=True)
    assert [entry for batch in entries(deltas) for entry in batch] == list(range(len(pieces)))
    plain = "".join(text for batch in texts(read(pieces)) for text in batch)
    assert "".join(text for batch in texts(deltas) for text in batch) == plain


def test_a_reader_that_has_stopped_says_nothing_more() -> None:
    reader = PlainReader(TEXT, ["a"])
    assert reader.feed(token("a")) == []
    assert reader.stopped
    assert reader.feed(token("b")) == []
    assert reader.end() == []


# --- a chat answer


class BraceCodec:
    """Calls in braces, by the contract of `CallCodec`: `{ab}` is a call of two pieces; a cut one is text."""

    tool = None
    rejected = opened = 0

    def __init__(self) -> None:
        self.calls = 0
        self.spans: list[tuple[int, int]] = []
        self._read = 0
        self._held = ""

    @property
    def inside(self) -> bool:
        return bool(self._held)

    def feed(self, text: str) -> list[Any]:
        events: list[Any] = []
        for char in text:
            self._read += 1
            if self._held or char == "{":
                self._held += char
            else:
                events.append(Text(self._read - 1, char))
            if self._held and char == "}":
                index, held, self._held = self.calls, self._held, ""
                self.calls += 1
                events += [CallStart(index, f"c{index}", "f"), CallArguments(index, held), CallEnd(index)]
        return events

    def new_id(self) -> str:
        return "c"

    def reopen(self) -> None:
        self._held = ""

    def end(self) -> list[Any]:
        held, self._held = self._held, ""
        return [Text(self._read - len(held), held)] if held else []


def open_reader(thinking: Thinking = "free", **options: Any) -> AnswerReader:
    reader: Reader = AnswerReader(TEXT, thinking=thinking, **options)
    assert isinstance(reader, AnswerReader)
    return reader


def answer(
    pieces: Sequence[bytes | str], thinking: Thinking = "free", *, logprobs: bool = False, **options: Any
) -> list[Delta]:
    """All deltas, the end's too. The log-probability of token i is -i."""
    reader = open_reader(thinking, **options)
    out: list[Delta] = []
    for at, piece in enumerate(pieces):
        if not reader.stopped:
            out += reader.feed(token(piece), TokenLogprob(token(piece), float(-at)) if logprobs else None)
    return out + reader.end()


def parts(deltas: Sequence[Delta]) -> list[tuple[str, str]]:
    """Kinds and texts in order, neighbours of one kind as one."""
    out: list[tuple[str, str]] = []
    for delta in deltas:
        kind, text = type(delta).__name__, getattr(delta, "text", "")
        if out and out[-1][0] == kind:
            out[-1] = (kind, out[-1][1] + text)
        else:
            out.append((kind, text))
    return out


def pieces_of(text: str, places: Sequence[int]) -> list[bytes]:
    """`text` as tokens, cut at these byte offsets."""
    data = text.encode()
    cuts = sorted({0, len(data), *(place for place in places if place < len(data))})
    return [data[low:high] for low, high in pairwise(cuts)]


def riding(deltas: Sequence[Delta]) -> list[tuple[str, list[float]]]:
    return [
        (type(delta).__name__, [-entry.logprob for entry in delta.logprobs])
        for delta in deltas
        if isinstance(delta, (Reasoning, ReasoningEnd, Blank, Content)) and delta.logprobs
    ]


A02 = [("ReasoningStart", ""), ("Reasoning", "easy"), ("ReasoningEnd", ""), ("Blank", "\n\n"), ("Content", "4")]


@pytest.mark.spec("API-075", "ENG-184", "ENG-185")
def test_reasoning_blank_lines_and_answer_come_apart() -> None:
    assert parts(answer(["<th", "ink>", "easy", "</thi", "nk>\n", "\n4"])) == A02
    assert parts(answer(["easy", "</think>", "\n\n", "4"], "open")) == A02
    assert parts(answer(["easy"], "open")) == A02[:2]
    assert parts(answer(["\n4"])) == [("Content", "\n4")]
    assert parts(answer([], "open")) == [("ReasoningStart", "")]
    assert open_reader("open").feed(token(b"\xf0")) == [ReasoningStart()]


@pytest.mark.spec("API-258")
def test_a_later_pair_is_answer() -> None:
    deltas = parts(answer(["<think>a</think>x<think>b</think>y"], "off"))
    assert deltas == [*A02[:1], ("Reasoning", "a"), *A02[2:3], ("Content", "x<think>b</think>y")]


@pytest.mark.spec("API-085", "API-086", "ENG-093")
def test_where_stop_strings_match() -> None:
    text = ["<think>", "a\n\nSTOP", "</think>", "\n\n", "b\n", "\nc"]
    whole = answer(text, stops=["\n\n"])
    assert parts(whole) == [("ReasoningStart", ""), ("Reasoning", "a")]
    assert parts(answer(text, stops=["\n\n"], stop_scope="answer"))[2:] == [*A02[2:4], ("Content", "b")]
    assert parts(answer(text, stops=["STOP"], stop_scope="answer"))[-1] == ("Content", "b\n\nc")
    assert parts(answer(["\n\nb"], stops=["\n\n"], stop_scope="answer")) == []


def test_a_stop_string_gives_out_what_was_held_before_it() -> None:
    for scope in ("all", "answer"):
        assert parts(answer(["{a", "b", "END", "}"], stops=["END"], stop_scope=scope, calls=BraceCodec())) == [
            ("Content", "{ab")
        ]
    assert parts(answer(["a</th", "END"], "open", stops=["END"]))[1] == ("Reasoning", "a</th")
    assert parts(answer(["a", "</think>\n", "\nEND"], "open", stops=["END"]))[2:] == A02[2:4]


def test_a_stop_string_that_holds_a_tags_end_does_not_hold_the_state() -> None:
    reader = open_reader("open", stops=["</think>\n\nEND"])
    for piece in ("a", "</think>", "\n\n"):
        reader.feed(token(piece))
    assert (reader.in_reasoning, reader.may_reason, reader.reasoning_tokens) == (False, False, 2)
    assert parts([*reader.feed(token("b")), *reader.end()]) == [*A02[2:4], ("Content", "b")]


@pytest.mark.spec("API-105", "ENG-184")
def test_calls_are_read_from_the_answer_alone() -> None:
    deltas = answer(["<think>", "{x}", "</think>", "\n", "a", "{b", "}", "c"], calls=BraceCodec())
    assert parts(deltas) == [
        ("ReasoningStart", ""),
        ("Reasoning", "{x}"),
        ("ReasoningEnd", ""),
        ("Blank", "\n"),
        ("Content", "a"),
        ("CallStart", ""),
        ("CallArguments", "{b}"),
        ("CallEnd", ""),
        ("Content", "c"),
    ]


@pytest.mark.spec("API-119")
@pytest.mark.parametrize("pieces", [["{a}{b} x"], ["{a", "}{b", "} x"], [*"{a}{b} x"]])
@pytest.mark.parametrize("stops", [[], ["{"], ["{b"]])
def test_a_single_call_ends_the_answer(pieces: list[str], stops: list[str]) -> None:
    reader = open_reader(calls=BraceCodec(), single_call=True, stops=stops, stop_scope="answer")
    deltas = [delta for piece in pieces for delta in reader.feed(token(piece))] + reader.end()
    assert reader.stopped
    ends = [delta for delta in deltas if isinstance(delta, CallEnd)]
    if stops != ["{"]:
        assert ends == [CallEnd(0)]
        assert deltas[-1] == CallEnd(0)
    assert reader.feed(token("y")) == reader.end() == []


@pytest.mark.spec("API-158", "ENG-097")
def test_reasoning_tokens_are_those_through_the_closing_tag() -> None:
    def count(pieces: Sequence[str], thinking: Thinking = "free") -> int:
        reader = open_reader(thinking)
        for piece in pieces:
            reader.feed(token(piece))
        return reader.reasoning_tokens

    assert count(["a", "b"], "open") == 2
    assert count(["a", "</th", "ink>", "b", "c"], "open") == 3
    assert count(["\n", "<think>", "a", "</think>", "b"]) == 4
    assert count(["<th", "ink>", "a"]) == 3
    assert count(["<think></think>"]) == 1
    assert count(["<th"]) == count(["a", "<think>"]) == count([]) == 0


@pytest.mark.spec("ENG-186")
def test_an_open_call_is_told_on_both_sides() -> None:
    reader = open_reader(calls=BraceCodec())
    told = []
    for piece in ("<think>", "<tool_call>", "x", "</tool_call>", "</think>", "{", "}", "a"):
        reader.feed(token(piece))
        told.append(reader.in_call)
    assert told == [False, True, True, False, False, True, False, False]


@pytest.mark.spec("ENG-097")
def test_a_block_closed_from_outside() -> None:
    for stops in ([], ["</thing"]):
        reader = open_reader("open", stops=stops)
        entry = TokenLogprob(token(b"</th\xf0"), -1.0)
        first = [*reader.feed(token("a")), *reader.feed(token(b"</th\xf0"), entry)]
        closed = reader.close_reasoning()
        assert parts([*first, *closed]) == [*A02[:1], ("Reasoning", "a</th\ufffd"), *A02[2:3]]
        assert riding(closed) == [("Reasoning", [1])]
        assert (reader.in_reasoning, reader.may_reason, reader.reasoning_tokens) == (False, False, 2)
        assert reader.close_reasoning() == []
        assert parts([*reader.feed(token("\n\n")), *reader.feed(token("4")), *reader.end()]) == A02[3:]
        assert reader.reasoning_tokens == 2
    assert open_reader().close_reasoning() == PlainReader(TEXT).close_reasoning() == []


@pytest.mark.spec("ENG-082", "ENG-185")
def test_log_probabilities_ride_on_every_kind_of_text() -> None:
    pieces = [" <th", "ink>", "a", "b</", "think", ">\n", "\n", "4", "{x", "}", "5"]
    assert riding(answer(pieces, calls=BraceCodec(), logprobs=True)) == [
        ("Reasoning", [2]),
        ("Reasoning", [3]),
        ("ReasoningEnd", [4, 5]),
        ("Blank", [6]),
        ("Content", [7]),
        ("Content", [10]),
    ]


WHOLE = st.lists(
    st.sampled_from(["<think>", "</think>", "a", "é", "😀", "\n", " ", "{", "}", "<", "EN", "END", "<th", "ink>"]),
    max_size=9,
).map("".join)


@pytest.mark.spec("ENG-184")
@given(
    WHOLE,
    st.sampled_from(["open", "free", "off"]),
    st.sampled_from(["all", "answer"]),
    st.booleans(),
    st.lists(st.integers(1, 60), max_size=8),
)
def test_every_split_gives_the_same_answer(
    text: str, thinking: Thinking, scope: str, single: bool, places: list[int]
) -> None:
    def read_in(cuts: Sequence[int]) -> list[tuple[str, str]]:
        options: dict[str, Any] = {
            "stops": ["END", "\n\n"],
            "stop_scope": scope,
            "calls": BraceCodec(),
            "single_call": single,
        }
        return parts(answer(pieces_of(text, cuts), thinking, **options))

    assert read_in(places) == read_in([]) == read_in(range(1, 60))


@pytest.mark.spec("ENG-082", "ENG-184")
@given(WHOLE, st.sampled_from(["open", "free"]), st.lists(st.integers(1, 60), max_size=8))
def test_every_entry_rides_with_its_first_character(text: str, thinking: Thinking, places: list[int]) -> None:
    """A text is made to name its own places: what a delta carries must begin inside it."""
    pieces = pieces_of(text, places)
    starts = [len(b"".join(pieces[:at]).decode("utf-8", "ignore")) for at in range(len(pieces))]
    expected: dict[str, list[float]] = {}
    for kind, low, high in _regions(text, thinking):
        expected.setdefault(kind, []).extend(float(at) for at, start in enumerate(starts) if low <= start < high)
    found: dict[str, list[float]] = {}
    for kind, entries in riding(answer(pieces, thinking, logprobs=True, stops=["never"], stop_scope="answer")):
        found.setdefault(kind, []).extend(entries)
    assert found == {kind: entries for kind, entries in expected.items() if entries}


def _regions(text: str, thinking: Thinking) -> Iterator[tuple[str, int, int]]:
    """(kind, start, end) of the text's characters, those of an opening tag left out."""
    names = {"reasoning": "Reasoning", "end": "ReasoningEnd", "blank": "Blank", "answer": "Content"}
    splitter = Splitter(thinking)
    for part in [*splitter.feed(text), *splitter.end()]:
        if part.kind in names:
            yield names[part.kind], part.at, part.at + len(part.text)


WRITTEN = (
    "<think>a <tool_call>x</tool_call></think>\n\nlook\n<tool_call>\n<function=ls>\n<parameter=path>\n/a <b\n"
    "</parameter>\n</function>\n</tool_call> \n<tool_call>\n<function=ls>\n</function>\n</tool_call>bye"
)
TOOL = {"type": "function", "function": {"name": "ls", "parameters": {"properties": {"path": {"type": "string"}}}}}


@pytest.mark.spec("API-105", "API-120", "ENG-184")
@pytest.mark.parametrize(
    ("stops", "single", "calls", "content"),
    [
        ([], False, 2, "look\nbye"),
        ([], True, 1, "look\n"),
        (["<b"], False, 0, "look\n<tool_call>\n<function=ls>\n<parameter=path>\n/a "),
        (["bye"], False, 2, "look\n"),
        (["<tool_call>x", "a "], True, 0, "look\n<tool_call>\n<function=ls>\n<parameter=path>\n/"),
    ],
)
def test_with_the_real_codec(stops: list[str], single: bool, calls: int, content: str) -> None:
    for places in (range(0, 400, 7), range(0, 400, 3), range(0)):
        codec = xml_calls([TOOL], live=False, new_id=lambda: "id")
        deltas = answer(pieces_of(WRITTEN, places), calls=codec, stops=stops, stop_scope="answer", single_call=single)
        assert "".join(delta.text for delta in deltas if isinstance(delta, Reasoning)) == "a <tool_call>x</tool_call>"
        assert sum(isinstance(delta, CallEnd) for delta in deltas) == calls
        text = "".join(delta.text for delta in deltas if isinstance(delta, Content))
        assert text.replace("\n", "") == content.replace("\n", "")
