from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.text.prompt import Thinking
from tandem.engine.text.reading.splitter import Part, Splitter

THINKING: tuple[Thinking, ...] = ("open", "free", "off")


def split(thinking: Thinking, pieces: Sequence[str]) -> list[Part]:
    splitter = Splitter(thinking)
    return [part for piece in pieces for part in splitter.feed(piece)] + splitter.end()


def joined(parts: Sequence[Part]) -> list[tuple[str, str]]:
    """Kinds and texts in order, neighbours of one kind as one."""
    out: list[tuple[str, str]] = []
    for part in parts:
        if out and out[-1][0] == part.kind:
            out[-1] = (part.kind, out[-1][1] + part.text)
        else:
            out.append((part.kind, part.text))
    return out


def expected(thinking: Thinking, text: str) -> list[tuple[str, str]]:
    """The whole text at once, by regular expressions."""
    if opener := re.match(r"\s*<think>", text):
        text = text[opener.end() :]
    elif thinking != "open":
        return [("answer", text)] if text else []
    reasoning, tag, rest = text.partition("</think>")
    out = [("start", ""), ("reasoning", reasoning), ("end", tag)]
    form = re.fullmatch(r"(\s*\n)?((?:[^\S\n]*\S.*)?)", rest, re.DOTALL)
    blank, answer = (form[1] or "", form[2]) if form and form[2] else (rest, "")
    out += [("blank", blank), ("answer", answer)]
    return [(kind, text) for kind, text in out if text or kind == "start"]


def cuts(text: str, most: int) -> Iterator[list[str]]:
    """Every way to cut `text` at up to `most` places, and into single characters."""
    for count in range(most + 1):
        for places in combinations(range(1, len(text)), count):
            yield [text[low:high] for low, high in pairwise((0, *places, len(text)))]
    yield list(text)


# --- what is what


@pytest.mark.spec("API-258", "ENG-185")
@pytest.mark.parametrize("thinking", THINKING)
@pytest.mark.parametrize("lead", ["", " ", "\n\n"])
def test_a_first_tag_opens_however_the_prompt_left_the_block(thinking: Thinking, lead: str) -> None:
    parts = split(thinking, [lead + "<think>a</think>x<think>b</think>y"])
    assert joined(parts) == [
        ("start", ""),
        ("reasoning", "a"),
        ("end", "</think>"),
        ("answer", "x<think>b</think>y"),
    ]


@pytest.mark.spec("ENG-185")
@pytest.mark.parametrize("thinking", ["free", "off"])
@pytest.mark.parametrize("text", ["  a<think>b</think>c", "</think>", " <thin", "\n <thank>x</think>", " \n "])
def test_any_other_first_text_makes_all_of_it_answer(thinking: Thinking, text: str) -> None:
    assert joined(split(thinking, [text])) == [("answer", text)]


@pytest.mark.spec("ENG-185")
def test_an_open_block_is_told_at_once_and_ends_at_the_first_tag() -> None:
    splitter = Splitter("open")
    assert splitter.feed("") == [Part("start", 0, "")]
    assert splitter.feed("a </th") == [Part("reasoning", 0, "a ")]
    assert splitter.feed("ink") == []
    assert splitter.feed("> b </think>") == [Part("end", 2, "</think>"), Part("answer", 10, " b </think>")]
    assert Splitter("open").end() == [Part("start", 0, "")]


@pytest.mark.spec("API-076")
@pytest.mark.parametrize(
    ("rest", "blank", "answer"),
    [
        ("\n\n4", "\n\n", "4"),
        (" \n \n  four", " \n \n", "  four"),
        (" 4\n", "", " 4\n"),
        ("4", "", "4"),
        ("\n\n", "\n\n", ""),
        ("\n  ", "\n  ", ""),
        ("", "", ""),
    ],
)
def test_blank_lines_behind_the_tag_are_not_the_answers_but_its_indentation_is(
    rest: str, blank: str, answer: str
) -> None:
    parts = split("open", ["a</think>", *rest])
    assert "".join(part.text for part in parts if part.kind == "blank") == blank
    assert "".join(part.text for part in parts if part.kind == "answer") == answer
    assert sum(part.kind == "blank" for part in parts) <= 1


@pytest.mark.spec("ENG-185")
def test_a_half_tag_at_the_end_is_the_text_it_is() -> None:
    assert joined(split("open", ["a</thi"])) == [("start", ""), ("reasoning", "a</thi")]
    assert joined(split("open", ["<thi"])) == [("start", ""), ("reasoning", "<thi")]
    assert joined(split("free", ["<thi"])) == [("answer", "<thi")]


# --- every split


TEXTS = [
    " <think>a\n",
    "<think></think>",
    "a</think>\n b",
    "</to</think> \n",
    "<<think>a",
    "a<b</think>",
]
LONG_TEXTS = [
    "\n<think>a<tool_call>x</think>\n\n  y<think>z</think>",
    "a </thin</think</think> b",
    "<think><think>a</think></think>\n",
    "x <function=f></function></think>\ny",
]


@pytest.mark.spec("ENG-184", "ENG-185")
@pytest.mark.parametrize("thinking", THINKING)
@pytest.mark.parametrize("text", TEXTS)
def test_every_split_of_a_short_text(thinking: Thinking, text: str) -> None:
    for pieces in cuts(text, 3 if len(text) > 12 else len(text)):
        assert joined(split(thinking, pieces)) == expected(thinking, text)


@pytest.mark.spec("ENG-184", "ENG-185")
@pytest.mark.parametrize("thinking", THINKING)
@pytest.mark.parametrize("text", LONG_TEXTS)
def test_every_split_in_three_of_a_longer_text(thinking: Thinking, text: str) -> None:
    for pieces in cuts(text, 2):
        assert joined(split(thinking, pieces)) == expected(thinking, text)


TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<function=", "</function>"]
FRAGMENTS = st.sampled_from([*TAGS, "<", "</th", "ink>", "<th", "a", " b", " ", "\n", "  \n", ">", "/", "é"])


@pytest.mark.spec("ENG-184", "ENG-185")
@given(st.sampled_from(THINKING), st.lists(FRAGMENTS, max_size=10), st.data())
def test_random_texts_and_splits(thinking: Thinking, fragments: list[str], data: st.DataObject) -> None:
    text = "".join(fragments)
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    pieces = [text[low:high] for low, high in pairwise((0, *places, len(text)))]
    parts = split(thinking, pieces)
    assert joined(parts) == expected(thinking, text)
    assert all(text[part.at : part.at + len(part.text)] == part.text for part in parts)
    assert [part.at for part in parts] == sorted(part.at for part in parts)


@given(st.sampled_from(THINKING), st.lists(FRAGMENTS, max_size=10))
def test_only_what_may_become_a_tag_or_a_blank_line_is_held(thinking: Thinking, fragments: list[str]) -> None:
    splitter = Splitter(thinking)
    fed, out = "", 0
    for fragment in fragments:
        fed += fragment
        for part in splitter.feed(fragment):
            out = part.at + len(part.text)
        held = fed[out:]
        if thinking == "open" and not out:  # an opening tag is dropped without a part
            held = held.lstrip().removeprefix("<think>")
        assert not held.strip() or "<think>".startswith(held.strip()) or "</think>".startswith(held)


# --- states


@pytest.mark.spec("ENG-185")
def test_whether_it_may_still_reason() -> None:
    def after(thinking: Thinking, text: str) -> tuple[bool, bool, bool]:
        splitter = Splitter(thinking)
        splitter.feed(text)
        return splitter.may_reason, splitter.in_reasoning, splitter.is_closed

    assert after("open", "") == (True, True, False)
    assert after("open", "a</think>") == (False, False, True)
    for thinking in THINKING[1:]:
        for undecided in ("", " \n", " <thi"):
            assert after(thinking, undecided) == (True, False, False)
        assert after(thinking, " <think>") == (True, True, False)
        assert after(thinking, "<think></think>") == (False, False, True)
        assert after(thinking, "a") == (False, False, False)


@pytest.mark.spec("ENG-186")
@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("a <tool_call>", True),
        ("a <tool_call>{</tool_call> b", False),
        ("<tool_call><function=f></function>", True),
        ("<tool_call><function=f></function></tool_call>", False),
        ("<function=f>x", True),
        ("<function=f>x<tool_call></tool_call>", True),
        ("<function=f>x</function>", False),
        ("</tool_call><tool_cal", False),
        ("<tool_call>a</think>", False),
        ("a</think><tool_call>", False),
    ],
)
def test_whether_a_call_is_open_in_the_reasoning(text: str, inside: bool) -> None:
    for pieces in cuts(text, 2 if len(text) < 30 else 1):
        splitter = Splitter("open")
        for piece in pieces:
            splitter.feed(piece)
        assert splitter.in_call is inside


@pytest.mark.spec("ENG-097")
def test_a_block_may_be_closed_from_outside() -> None:
    splitter = Splitter("open")
    splitter.feed("<tool_call>a</thi")
    assert splitter.close() == [Part("reasoning", 12, "</thi"), Part("end", 17, "")]
    assert (splitter.may_reason, splitter.in_call, splitter.is_closed) == (False, False, True)
    assert splitter.feed("\nnk> b") == [Part("blank", 17, "\n"), Part("answer", 18, "nk> b")]
    assert Splitter("free").close() == []
