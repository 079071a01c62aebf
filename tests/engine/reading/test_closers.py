from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.text.reading.closers import CloserFilter
from tests.engine.reading.test_splitter import cuts

CLOSER = "</think>"


def filtered(pieces: Sequence[str]) -> tuple[str, int]:
    """What goes out, and how many closers do not. Every piece goes out at its own place."""
    closers, at, out = CloserFilter(), 0, ""
    places = []
    for piece in pieces:
        places += closers.feed(at, piece)
        at += len(piece)
    whole = "".join(pieces)
    for start, text in [*places, *closers.end()]:
        assert whole.startswith(text, start)
        out += text
    return out, closers.count


@pytest.mark.spec("ANS-003")
@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("</think>", ""),
        ("a\n</think>\nb", "a\nb"),
        ("a\n   </think> \t\r\nb", "a\nb"),
        ("</think>\n</think>\n\nb", "\nb"),
        ("a\n</think>", "a\n"),
        ("```\nx\n```\n</think>\n", "```\nx\n```\n"),
        ("<tool_call>\n</think>\n</tool_call>\n</think>\n", "<tool_call>\n</think>\n</tool_call>\n"),
        ("<think>\n</think>\n</think>\n", "<think>\n</think>\n"),
        ("the tag `<think>` opens\n</think>\n", "the tag `<think>` opens\n"),
        ("a <think>b</think> c\n</think>\n", "a <think>b</think> c\n"),
        ("<tandem_memory>a</tandem_memory>\n</think>\n", "<tandem_memory>a</tandem_memory>\n"),
    ],
)
def test_a_closer_alone_on_a_line_is_not_sent(text: str, sent: str) -> None:
    for pieces in cuts(text, 2):
        assert filtered(pieces)[0] == sent


@pytest.mark.spec("ANS-003")
@pytest.mark.parametrize(
    "text",
    [
        "the tag </think> ends it",
        "</think> and more",
        "</think>.",
        "</thinking>",
        "    </think>",
        "\t</think>",
        "```html\n</think>\n```",
        "~~~~\n~~~\n</think>\n~~~~\n",
        "```\n</think>",
        "<tool_call>\n</think>\n</tool_call>",
        "<tandem_memory>\n</think>\n</tandem_memory>",
        "x <tandem_memory> y\n</think>\n",
        "well, <think>\nhm\n</think>\n",
        "</think>" + " " * 65,
        "</thi",
        "</think\n>",
        "",
    ],
)
def test_one_that_means_something_stays(text: str) -> None:
    for pieces in cuts(text, 1 if len(text) > 40 else 2):
        assert filtered(pieces) == (text, 0)


@pytest.mark.spec("ANS-003")
def test_only_the_first_characters_of_a_line_wait() -> None:
    closers = CloserFilter()
    assert closers.feed(0, "a\n ") == [(0, "a\n")]
    assert closers.feed(3, "</thi") == []
    assert closers.feed(8, "s") == [(2, " </this")]
    assert closers.feed(9, " <") == [(9, " <")]
    assert closers.feed(11, "\n</think>") == [(11, "\n")]
    assert closers.feed(20, "\nb") == [(21, "b")]
    assert closers.count == 1


@pytest.mark.spec("ANS-003")
def test_a_call_ends_the_line() -> None:
    closers = CloserFilter()
    closers.feed(0, "a\n</think>")
    assert (closers.end(), closers.count) == ([], 1)
    closers.feed(30, "</think>")
    assert (closers.end(), closers.count) == ([], 2)
    assert closers.feed(50, "<") == []
    assert closers.end() == [(50, "<")]


@pytest.mark.spec("ANS-003")
@given(
    st.lists(
        st.sampled_from([CLOSER, "</thi", "nk>", "\n", " ", "a", "```", "<think>", "`", "<tool_call>"]), max_size=14
    )
)
def test_every_cut_gives_the_same_and_without_a_lone_closer_all_is_sent(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole = filtered([text])
    assert filtered(pieces) == filtered(list(text)) == whole
    if not re.search(r"^ {0,3}</think>[ \t\r]*$", text, re.MULTILINE):
        assert whole == (text, 0)
