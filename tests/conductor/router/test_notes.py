"""Notes: what is live, what is fresh, what the budget holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.conductor.router.notes import Carried, LiveNote, NewNote, NotePart, carry, live_notes, text_hash

A, B, C = (NotePart("class", f"package:{name}", name * 10) for name in "abc")
WHO = NotePart("identity", "identity", "I am.")
HERE, THERE = (NotePart("directory", "directory", f"The current working directory is: /{name}") for name in "xy")


def encode(text: str) -> list[int]:
    return list(text.encode())


def live(new: NewNote | None, ordinal: int = 0, chain: str = "one") -> LiveNote:
    assert new is not None
    parts = tuple((part.kind, part.name, text_hash(part.text)) for part in new.parts)
    return LiveNote(ordinal, chain, new.runs, parts, new.tokens)


def fresh(parts: list[NotePart], notes: list[LiveNote] | None = None, **given: object) -> list[NotePart]:
    new = carry(notes or [], parts, most_tokens=10_000, encode=encode, **given).new  # type: ignore[arg-type]
    return list(new.parts) if new is not None else []


@pytest.mark.spec("NOTE-003")
def test_parts_stand_in_their_order_and_the_directory_is_the_clients() -> None:
    new = carry([], [A, WHO, HERE, B], most_tokens=100, encode=encode).new
    assert new is not None
    assert new.parts == (HERE, A, B, WHO)
    assert [run.kind for run in new.runs] == ["client", "note"]
    assert "".join(run.text for run in new.runs) == "".join(f"\n\n{part.text}" for part in new.parts)
    assert new.tokens == len("".join(run.text for run in new.runs))


@pytest.mark.spec("NOTE-006")
def test_what_is_live_is_not_said_again() -> None:
    said = live(carry([], [A, B], most_tokens=100, encode=encode).new)
    assert fresh([A, B], [said]) == []
    assert fresh([A, C, WHO], [said]) == [C, WHO]
    assert fresh([A, C, WHO], [said], dedup="block") == [A, C, WHO]
    assert fresh([A, B, WHO], [said], dedup="block") == [WHO]


@pytest.mark.spec("FIT-001")
def test_a_directory_is_told_whenever_it_is_not_the_last_told() -> None:
    first = live(carry([], [HERE], most_tokens=100, encode=encode).new)
    assert fresh([HERE], [first]) == []
    assert fresh([THERE], [first]) == [THERE]
    second = live(carry([first], [THERE], most_tokens=100, encode=encode).new, 1, "two")
    assert fresh([HERE], [first, second]) == [HERE]


@pytest.mark.spec("NOTE-007")
def test_over_the_budget_the_oldest_goes_and_is_said_again() -> None:
    old = live(carry([], [A], most_tokens=100, encode=encode).new)
    newer = live(carry([old], [B], most_tokens=100, encode=encode).new, 1, "two")
    kept = carry([old, newer], [A, C], most_tokens=36, encode=encode)
    assert (kept.replays, kept.dropped) == ((old, newer), ())
    tight = carry([old, newer], [C], most_tokens=35, encode=encode)
    assert (tight.replays, tight.dropped) == ((newer,), (old,))
    again = carry([old, newer], [A, C], most_tokens=35, encode=encode)
    assert again.new is not None
    assert (again.replays, again.dropped, again.new.parts) == ((old,), (newer,), (C,))
    both = live(carry([], [A, B], most_tokens=100, encode=encode).new)
    part = carry([both, live(again.new, 1, "two")], [A, WHO], most_tokens=32, encode=encode)
    assert part.new is not None
    assert (part.dropped, part.new.parts) == ((both,), (A, WHO))


@pytest.mark.spec("NOTE-007")
def test_a_note_larger_than_the_budget_is_said_once() -> None:
    first = carry([], [A, B], most_tokens=5, encode=encode)
    assert first.new is not None
    assert first.new.tokens > 5
    note = live(first.new)
    for parts in ([A, B], [A], []):
        assert carry([note], parts, most_tokens=5, encode=encode) == Carried((note,))
    assert carry([note], [A, B, C], most_tokens=5, encode=encode).dropped == ()
    assert carry([note], [C], most_tokens=5, encode=encode).dropped == (note,), "nobody wants it any more"


@pytest.mark.spec("NOTE-007")
@given(st.lists(st.integers(1, 40), max_size=8), st.integers(0, 100), st.integers(0, 30))
def test_the_budget_holds_or_nothing_old_is_left(sizes: list[int], most: int, length: int) -> None:
    notes = [LiveNote(at, str(at), (), (), tokens) for at, tokens in enumerate(sizes)]
    parts = [NotePart("class", "rule", "x" * length)]
    kept = carry(notes, parts, most_tokens=most, encode=encode)
    assert list(kept.dropped + kept.replays) == notes  # none of them says what is wanted, so the oldest go first
    tokens = sum(note.tokens for note in kept.replays) + (kept.new.tokens if kept.new else 0)
    assert tokens <= most or not kept.replays or kept.new is None
    if kept.dropped:
        assert tokens + kept.dropped[-1].tokens > most


@pytest.mark.spec("NOTE-008")
def test_a_note_is_live_where_its_message_is() -> None:
    notes = [LiveNote(3, "c", (), (), 1), LiveNote(1, "a", (), (), 1), LiveNote(2, "b", (), (), 1)]
    assert [note.chain for note in live_notes(notes, {"a", "c"})] == ["a", "c"]
