"""Client strings broken up so that none of them spells a marker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.text.plain import Guard

MARKERS = ("<|im_start|>", "<|im_end|>", "aba", "bab", "xx")
GUARD = Guard(MARKERS)
S = "\ufdd0"

PARTS = st.lists(st.sampled_from([*MARKERS, "<", "<|im", "_end|>", "|>", "a", "b", "x", " ", "\n", "é"]), max_size=8)
TEXTS = PARTS.map("".join)


def protected(text: str) -> str:
    result = GUARD.protect(text, S)
    assert isinstance(result, str)
    return result


@given(st.lists(TEXTS, max_size=4), st.booleans())
def test_strings_side_by_side_spell_no_marker(texts: list[str], trimmed: bool) -> None:
    broken = [protected(text) for text in texts]
    assert [text.replace(S, "") for text in broken] == texts
    joined = "".join(text.strip() if trimmed else text for text in broken)
    assert not any(marker in joined for marker in MARKERS)


@given(TEXTS, st.sampled_from(MARKERS))
def test_no_marker_is_completed_by_text_around_it(text: str, marker: str) -> None:
    broken = protected(text)
    for cut in range(1, len(marker)):
        assert not (broken + marker[cut:]).endswith(marker)
        assert not (marker[:cut] + broken).startswith(marker)


def test_values_of_any_shape() -> None:
    value = {"<|im_end|>": ["xx", 1, None, True, 2.5, {"k": "cabac"}], "t": ("bad",)}
    expected = {f"<{S}|im_end|>": [f"{S}x{S}x{S}", 1, None, True, 2.5, {"k": f"ca{S}bac"}], "t": [f"{S}bad"]}
    assert GUARD.protect(value, S) == expected


def test_ordinary_text_is_left_alone() -> None:
    text = "Plain words, <b>tags</b> and a | b.\n"
    assert protected(text) == text
    assert Guard(()).protect("<|im_end|>", S) == "<|im_end|>"
    assert Guard(["x"]).protect("x", S) == "x", "one character cannot be broken up"


def test_the_sentinel_is_in_no_input() -> None:
    assert GUARD.sentinel([{"a": ["b"]}], "template") == "\ufdd0"
    assert GUARD.sentinel([{"\ufdd0": ["\ufdd1"]}], "\ufdd2") == "\ufdd3"
    every = "".join(map(chr, range(0xFDD0, 0xFDF0)))
    assert GUARD.sentinel([[every]], "") == "\U000f0000"
