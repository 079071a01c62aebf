from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.decoding.seams import Reader
from tandem.engine.fake import FakeText
from tandem.engine.text.reading.deltas import Content, Delta
from tandem.engine.text.reading.reader import PlainReader
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
