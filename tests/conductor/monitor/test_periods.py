"""Exact copies at the end of a text or of ids (MON-102), and how far zlib gets."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.monitor.periods import PROBE, Form, Period, id_period, repetition, shrinkage, text_period

REACH = 300


def slowly(text: str) -> Period | None:
    """The definition, tried out unit by unit."""
    for unit in range(1, min(REACH, len(text) - PROBE) + 1):
        span = unit
        while span < len(text) and text[-span - 1] == text[-span - 1 + unit]:
            span += 1
        if span >= PROBE + unit:
            return Period(unit, span)
    return None


@pytest.mark.spec("MON-102")
@settings(max_examples=60, deadline=None)
@given(
    head=st.text("ab\n", max_size=40),
    unit=st.text("abé", min_size=1, max_size=REACH + 20),
    copies=st.integers(1, 60),
    part=st.integers(0, 300),
)
def test_the_closest_copy_tells_the_period(head: str, unit: str, copies: int, part: int) -> None:
    text = head + unit * copies + unit[: part % len(unit)]
    assert text_period(text, REACH) == slowly(text)


@pytest.mark.parametrize("text", ["", "a" * PROBE, "".join(map(chr, range(1_000))), "x" + "a" * PROBE])
def test_what_does_not_repeat_itself_has_no_period(text: str) -> None:
    assert text_period(text, REACH) is None


def test_ids_repeat_themselves_over_a_whole_window() -> None:
    assert id_period([9, *[1, 2, 3] * 100], 256, 64) == Period(3, 256)
    assert id_period([1, 2, 3] * 85, 256, 64) is None
    assert id_period([1] * 100 + [2] + [1] * 200, 256, 64) is None
    assert id_period(list(range(65)) * 8, 256, 64) is None


def test_a_form_wants_tokens_copies_and_a_unit_of_its_length() -> None:
    form = Form(tokens=384, copies=3, shortest=256, longest=4_096)
    unit = "".join(random.Random(1).choices("abcdef", k=390))
    pieces = [unit[at : at + 3] for at in range(0, 390, 3)]
    assert repetition(pieces * 3, (form,)) == Period(390, 1170)
    assert repetition(pieces * 2 + pieces[:125], (form,)) is None
    wide = [unit[at : at + 13] for at in range(0, 390, 13)]
    assert repetition(wide * 12, (form,)) is None, "twelve copies, but in 360 tokens"
    assert repetition(["ab"] * 2_000, (form,)) is None, "a short unit"


def test_shrinkage_is_that_of_the_newest_bytes() -> None:
    noise = random.Random(2).randbytes(4_000).hex()
    assert shrinkage(noise, 2_000) < 2
    assert shrinkage(noise + "é" * 4_000, 2_000) > 50
    assert shrinkage("", 2_000) == 1.0
