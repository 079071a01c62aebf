from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.text.reading.detokenizer import Detokenizer

# Bytes that start, continue, overlong and surrogate sequences need come far more often than chance would bring them.
NASTY = st.lists(
    st.sampled_from([0x41, 0x80, 0x90, 0xA0, 0xBF, 0xC2, 0xC3, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF4, 0xF5]), max_size=12
).map(bytes)
DATA = st.one_of(st.binary(max_size=24), NASTY, st.text(max_size=12).map(lambda text: text.encode()))


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    borders = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[low:high] for low, high in pairwise(borders)]


def read(pieces: list[bytes]) -> list[str]:
    detokenizer = Detokenizer()
    return [*map(detokenizer.feed, pieces), detokenizer.end()]


@pytest.mark.spec("ENG-095", "ENG-096")
@given(DATA, st.lists(st.integers(0, 1000), max_size=8))
def test_every_cut_gives_the_one_shot_decode(data: bytes, cuts: list[int]) -> None:
    assert "".join(read(pieces_of(data, cuts))) == data.decode("utf-8", "replace")


@pytest.mark.spec("ENG-095", "API-139")
@given(st.text(max_size=16), st.lists(st.integers(0, 1000), max_size=8))
def test_no_replacement_character_stands_in_for_later_bytes(text: str, cuts: list[int]) -> None:
    read_text = ""
    for piece in read(pieces_of(text.encode(), cuts)):
        read_text += piece
        assert text.startswith(read_text)
    assert read_text == text


@pytest.mark.spec("ENG-095")
def test_an_unfinished_character_waits_and_is_flushed_once() -> None:
    detokenizer = Detokenizer()
    assert detokenizer.feed(b"a\xf0\x9f") == "a"
    assert detokenizer.is_waiting
    assert detokenizer.feed(b"\x98") == ""
    assert detokenizer.end() == "\ufffd"
    assert not detokenizer.is_waiting


def test_controls_and_marks_pass_as_they_are() -> None:
    text = "\0\ufeff\r\u2028e\u0301"
    assert "".join(read([bytes([byte]) for byte in text.encode()])) == text
