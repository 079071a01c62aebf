from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.text.reading.stops import StopMatcher

SMALL = st.text(alphabet="ab", min_size=1, max_size=4)


def feed_all(stops: list[str], pieces: list[str]) -> tuple[list[str], bool]:
    matcher = StopMatcher(stops)
    out = [matcher.feed(piece) for piece in pieces]
    return [*out, matcher.end()], matcher.stopped


def reference(stops: list[str], text: str) -> tuple[str, bool]:
    """The match completed first, the longest of those completed together."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))], True
    return text, False


def splits(text: str) -> list[list[str]]:
    inner = range(1, len(text))
    return [
        [text[low:high] for low, high in zip((0, *cuts), (*cuts, len(text)), strict=True)]
        for count in range(len(text))
        for cuts in combinations(inner, count)
    ]


@pytest.mark.spec("ENG-093", "API-084")
@pytest.mark.parametrize(
    ("stops", "text"),
    [
        (["END"], "a END b"),
        (["END"], "a ENX ENEND"),
        (["aab"], "aaaab"),
        (["abcd", "bc"], "xabcdx"),
        (["\n\n", "\n"], "a\n\nb"),
        (["never"], "neve nev ne"),
        (["é\U0001f600"], "aé\U0001f600b"),
    ],
)
def test_every_split_gives_the_same_output(stops: list[str], text: str) -> None:
    expected = reference(stops, text)
    for pieces in splits(text):
        out, stopped = feed_all(stops, pieces)
        assert ("".join(out), stopped) == expected


@pytest.mark.spec("ENG-093")
@given(st.lists(SMALL, min_size=1, max_size=4), st.lists(st.text(alphabet="ab", max_size=4), max_size=8))
def test_any_stops_and_text_equal_the_reference(stops: list[str], pieces: list[str]) -> None:
    out, stopped = feed_all(stops, pieces)
    assert ("".join(out), stopped) == reference(stops, "".join(pieces))


@pytest.mark.spec("ENG-093", "API-083")
@given(SMALL, st.text(alphabet="ab", max_size=16))
def test_one_stop_cuts_where_find_finds_it(stop: str, text: str) -> None:
    out, stopped = feed_all([stop], list(text))
    at = text.find(stop)
    assert stopped == (at >= 0)
    assert "".join(out) == (text if at < 0 else text[:at])


@pytest.mark.spec("ENG-093", "API-084")
@given(st.lists(SMALL, min_size=1, max_size=3), st.text(alphabet="abc", max_size=16))
def test_exactly_the_longest_possible_stop_is_held_back(stops: list[str], text: str) -> None:
    matcher = StopMatcher(stops)
    seen = out = ""
    for char in text:
        seen += char
        out += matcher.feed(char)
        if matcher.stopped:
            return
        held = max(
            length for stop in stops for length in range(len(stop)) if seen.endswith(stop[:length]) or length == 0
        )
        assert out == seen[: len(seen) - held]


def test_a_stop_that_does_not_come_is_released() -> None:
    matcher = StopMatcher(["END"])
    assert [matcher.feed("a E"), matcher.feed("N"), matcher.feed("X"), matcher.end()] == ["a ", "", "ENX", ""]


def test_nothing_comes_after_a_match() -> None:
    matcher = StopMatcher(["END"])
    assert [matcher.feed("a END b"), matcher.feed("c"), matcher.end()] == ["a ", "", ""]
    assert matcher.stopped


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        StopMatcher(["a", ""])
