"""Hidden tokens that come back: the rows' own ids, in their places, for the session that wrote them and nobody else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.text.prompt import Prompt, Span
from tandem.engine.text.replay import Run, Whose, Written, finalise, hide

WINDOW = 1000
# What stands in the rows, part by part: the client has seen it, or has not.
PARTS = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 3), min_size=1, max_size=5)), min_size=1, max_size=8)
MORE = st.lists(st.integers(0, 3), min_size=1, max_size=5)


def rows_of(parts: list[tuple[bool, list[int]]]) -> tuple[Written, list[int]]:
    """The rows, and what of them the client sends back."""
    keys, seen, hidden = list[int](), list[int](), list[Run]()
    for shown, ids in parts:
        if shown:
            seen += ids
        else:
            hidden.append((len(keys), len(keys) + len(ids)))
        keys += ids
    return Written(tuple(keys), Whose("mine", tuple(hidden))), seen


def sent(ids: list[int], session: str | None = "mine") -> Prompt:
    return replace(Prompt.of_client(ids), session=session)


@pytest.mark.spec("ENG-111", "ENG-181", "SCH-114", "API-248")
@given(PARTS, MORE)
def test_the_rows_come_back_whole_and_what_was_hidden_stays_so(
    parts: list[tuple[bool, list[int]]], more: list[int]
) -> None:
    written, seen = rows_of(parts)
    prompt = sent([*seen, *more])
    done = finalise(prompt, [written], WINDOW)
    assert done.ids == (*written.keys, *more)
    assert done.client_tokens == len(prompt.ids)
    assert done.hidden_tokens == sum(stop - start for start, stop in written.whose.hidden)
    assert [each for span in done.spans if span.kind == "client" for each in done.ids[span.start : span.end]] == [
        *seen,
        *more,
    ]
    assert done.insertion == len(done.ids)
    assert finalise(done, [written], WINDOW) is done, "a note that is there already does not come twice"


@pytest.mark.spec("ENG-111")
@given(PARTS, MORE, st.integers(0, 40))
def test_a_prompt_that_parts_from_the_rows_is_left_alone(
    parts: list[tuple[bool, list[int]]], more: list[int], at: int
) -> None:
    written, seen = rows_of(parts)
    if not seen:
        return
    edited = [*seen, *more]
    edited[at % len(seen)] = 9
    prompt = sent(edited)
    assert finalise(prompt, [written], WINDOW) is prompt
    short = sent(seen)
    assert finalise(short, [written], WINDOW) is short, "nothing is behind the rows"


@pytest.mark.spec("ENG-111", "API-248")
@given(PARTS, MORE, st.sampled_from([None, "", "another"]))
def test_of_another_session_nothing_is_told(
    parts: list[tuple[bool, list[int]]], more: list[int], session: str | None
) -> None:
    written, seen = rows_of(parts)
    prompt = sent([*seen, *more], session)
    assert finalise(prompt, [written], WINDOW) is prompt


@pytest.mark.spec("ENG-111")
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4), MORE)
def test_whatever_the_runs_are_nothing_but_rows_come_back(runs: list[Run], more: list[int]) -> None:
    """The prompt stays whole, and begins with rows that are there as they are."""
    keys = tuple(at % 2 for at in range(10))
    for seen in range(10):
        prompt = sent([*keys[:seen], *more])
        done = finalise(prompt, [Written(keys, Whose("mine", tuple(runs)))], WINDOW)
        if done is prompt:
            continue
        assert done.ids[: len(keys)] == keys
        client = [span for span in done.spans if span.kind == "client"]
        assert [each for span in client for each in done.ids[span.start : span.end]] == list(prompt.ids)


def test_the_longest_of_several_counts_and_the_window_is_kept() -> None:
    short, _ = rows_of([(True, [1, 2]), (False, [7])])
    long, seen = rows_of([(True, [1, 2]), (False, [7]), (True, [3]), (False, [8, 8])])
    prompt = sent([*seen, 5])
    assert finalise(prompt, [short, long], WINDOW).ids == (1, 2, 7, 3, 8, 8, 5)
    assert finalise(prompt, [short, long], 7).ids == (1, 2, 7, 3, 5)
    assert finalise(prompt, [short, long], 5) is prompt


def test_places_move_with_what_stands_before_them() -> None:
    written, seen = rows_of([(True, [1, 2]), (False, [7, 7]), (True, [3])])
    spans = (Span("client", 0, 4), Span("note", 4, 5), Span("client", 5, 6))
    prompt = Prompt((*seen, 4, 6, 5), spans, 4, head=1, session="mine")
    done = finalise(prompt, [written], WINDOW)
    assert done.ids == (1, 2, 7, 7, 3, 4, 6, 5)
    assert [(each.kind, each.start, each.end) for each in done.spans] == [
        ("client", 0, 2),
        ("replayed", 2, 4),
        ("client", 4, 6),
        ("note", 6, 7),
        ("client", 7, 8),
    ]
    assert (done.insertion, done.head) == (6, 1)


@pytest.mark.spec("ENG-111", "MON-137")
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 9)), max_size=6))
def test_what_is_dropped_with_a_run_is_counted_in_what_the_client_had(steps: list[tuple[int, int, int]]) -> None:
    runs, seen, at = list[Run](), list[int](), 0
    for written, count, dropped in steps:
        seen += range(at, at + written)
        at += written
        dropped = min(dropped, len(seen))
        start = hide(runs, at, count, dropped)
        del seen[len(seen) - dropped :]
        assert start == runs[-1][0]
        at += count
    hidden = [each for start, stop in runs for each in range(start, stop)]
    assert hidden == sorted(set(hidden)), "in order, none twice"
    assert sorted([*hidden, *seen]) == list(range(at))
