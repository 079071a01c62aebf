"""What a codec was fed, by offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.text.reading.fed import Fed


@given(st.lists(st.text(max_size=3), max_size=8), st.integers(0, 24), st.integers(0, 24))
def test_the_text_between_two_offsets_is_the_whole_texts(pieces: list[str], start: int, end: int) -> None:
    fed = Fed()
    for piece in pieces:
        fed.add(piece)
    whole = "".join(pieces)
    assert fed.between(start, end) == (whole[start:end] if start < end else "")
    assert fed.from_on(start) == whole[start:]
    assert fed.pieces == pieces
