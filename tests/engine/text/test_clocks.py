"""Clocks and reminders in the prompts of clients (ENG-177)."""

from __future__ import annotations

import pytest

from tandem.engine.text.clocks import clock_at, reminder_at, without_moving


@pytest.mark.parametrize(
    "clock",
    [
        "15:09:20",
        "15:09",
        "3:09 PM",
        "2026-11-30",
        "2026-11-30T15:09:20Z",
        "2026-11-30 15:09:20.123 UTC",
        "2026-11-30T15:09:20+01:00",
        "11/30/2026, 3:09:20 PM",
        "30.11.2026 15:09",
        "Monday, November 30, 2026",
        "Mon Nov 30 2026 15:09:20 GMT",
        "30 November 2026 at 15:09",
        "November 30th, 2026",
        "1796052560",
        "1796052560123",
    ],
)
def test_a_clock_is_found_from_any_of_its_characters(clock: str) -> None:
    text = f"It is now {clock}, I think."
    assert {clock_at(text, at) for at in range(10, 10 + len(clock))} == {10}
    assert clock_at(text, 4) is None
    assert clock_at(text, len(text) - 1) is None


@pytest.mark.parametrize("text", ["two of 98 passed", "see a.py:12", "version 3.12.1", "a march of ants", "line 1796"])
def test_other_text_is_no_clock(text: str) -> None:
    assert all(clock_at(text, at) is None for at in range(len(text)))


def test_a_reminder_has_the_space_around_it() -> None:
    text = "Do it.\n\n<system-reminder>\nthe file changed\n</system-reminder>\n"
    assert [reminder_at(text, at) for at in (5, 6, 7, 8, 30, len(text) - 1)] == [None, 8, 8, 8, 8, 8]
    assert reminder_at("<b>bold</b> <env>unclosed", 14) is None
    assert reminder_at("<env>a</env> b <env>c</env>", 20) == 15


def test_what_moves_is_left_out() -> None:
    one = "You help. Time: 15:09:20.\n<env>cwd: /a</env> Hello  there"
    other = "You help. Time: 15:10:01. Hello there<system-reminder>b</system-reminder>"
    assert without_moving(one) == without_moving(other) == "Youhelp.Time:.Hellothere"
    assert without_moving("<env>") == "<env>"


@pytest.mark.parametrize(
    "text",
    [" " * 200_000, "<env>" * 40_000, "<env></env> " * 20_000, "1:" * 100_000, "jan " * 50_000, "1 " * 100_000],
    ids=["space", "openings", "blocks", "colons", "months", "digits"],
)
def test_no_text_takes_long(text: str) -> None:
    """A search that is not linear would take minutes here."""
    without_moving(text)
    reminder_at(text, len(text) - 1)
    clock_at(text, len(text) // 2)
