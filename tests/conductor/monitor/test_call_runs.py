"""Runs of calls: what is the same, what completes a run, what breaks one, and what the session keeps of calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.monitor.call_runs import (
    Made,
    calls_made,
    near_run,
    new_records,
    pending_runs,
    returned,
    turn_calls,
    waits,
)
from tandem.conductor.monitor.state import CALLS, CallRecord, MonitorDelta, Monitored, remembered
from tandem.conductor.tool_arguments import canonical
from tests.conductor.monitor.calling import USER, called, round_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def done(*made: tuple[str, str, str]) -> list[Made]:
    return returned(turn_calls([USER, *called(*made)]))


def letters(word: str) -> list[Made]:
    """One call a letter, all with one result each by the letter."""
    return done(*((letter, "{}", f"result of {letter}") for letter in word))


def pending(word: str, repeats: int = 3, cycle: int = 3) -> list[tuple[int, str, int]]:
    return [(run.period, run.next.tool, run.length) for run in pending_runs(letters(word), repeats, cycle)]


@pytest.mark.spec("MON-087")
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.integers(0, 4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_identity_ignores_order_spacing_and_escapes(arguments: dict[str, Any], indent: int, ascii_only: bool) -> None:
    written = json.dumps(dict(reversed(arguments.items())), indent=indent, ensure_ascii=ascii_only)
    call = calls_made(called(("read", json.dumps(arguments), "")))[0]
    assert call.is_call("read", written)
    assert not call.is_call("list", written)
    other = {**arguments, "more": 1} if "more" not in arguments else {}
    assert not call.is_call("read", json.dumps(other))


@pytest.mark.spec("MON-087", "MON-157", "MON-090")
def test_what_lacks_one_call_of_a_run() -> None:
    assert pending("A") == []
    assert pending("AA") == [(1, "A", 3)]
    assert pending("BAAA") == [(1, "A", 4)]
    assert pending("AB") == []
    assert pending("ABA") == [(2, "B", 4)]
    assert pending("ABAB") == [(2, "A", 5)]
    assert pending("XABCAB") == [(3, "C", 6)]
    assert pending("ABCA") == []
    assert pending("ABCDABC") == []
    assert pending("ABCDABC", cycle=4) == [(4, "D", 8)]
    assert pending("ABA", cycle=1) == []
    # Of a cycle in which two calls are equal the next is the shorter run's only where that is one.
    assert pending("AABAA") == [(1, "A", 3), (3, "B", 6)]
    assert pending("AAA", repeats=5) == []
    assert pending("A", repeats=2) == [(1, "A", 2)]


@pytest.mark.spec("MON-157", "MON-087")
@given(st.text("AB", min_size=1, max_size=3), st.integers(2, 4), st.text("XYZ", max_size=3))
@settings(max_examples=25, deadline=None)
def test_any_unit_is_found_by_its_last_call(unit: str, copies: int, before: str) -> None:
    calls = before + unit * max(copies, 3 if len(set(unit)) == 1 else 2)
    expected = calls[-1]
    assert any(run.next.tool == expected for run in pending_runs(letters(calls[:-1]), 3, 3))


@pytest.mark.spec("MON-087", "MON-157", "MON-088")
def test_what_breaks_a_run() -> None:
    assert list(pending_runs(done(("A", "{}", "x"), ("A", "{}", "y")), 3, 3)) == []
    assert list(pending_runs(done(("A", "{}", "1"), ("B", "{}", "x"), ("A", "{}", "2")), 3, 3)) == []
    same = ("A", "{}", "x")
    broken = [
        [USER, *called(same, same), USER],
        [USER, *called(same), USER, *called(same, start=1)],
        [USER, *called(same, same, ("edit", "{}", "ok"))],
        [USER, *called(same), {"role": "assistant", "content": "Hm."}, *called(same, start=1)],
        [USER, *called(same, same), called(same, start=2)[0]],
    ]
    for messages in broken:
        assert list(pending_runs(returned(turn_calls(messages)), 3, 3)) == []
    # A call between them is no part of a run of one; the two are a circle that lacks its last.
    edited = pending_runs(done(same, ("edit", "{}", "ok"), same), 3, 3)
    assert [(run.period, run.next.tool) for run in edited] == [(2, "edit")]
    line = {"role": "system", "content": "The date has changed."}
    assert list(pending_runs(returned(turn_calls([USER, *called(same), line, *called(same, start=1)])), 3, 3))


@pytest.mark.spec("MON-158")
def test_near_calls_differ_in_nothing_but_numbers() -> None:
    waiting = [("bash", f'{{"command": "sleep {number}"}}', "still running") for number in (1, 2.5, "3")]
    sleeps = [f'{{"command":"sleep {number}"}}' for number in ("3", 2.5, 1)]
    assert near_run(done(*waiting)) == sleeps
    assert near_run(done(("bash", '{"command": "ls"}', "still running"), *waiting)) == sleeps
    assert near_run(done(*waiting[:2], (*waiting[2][:2], "done"))) == sleeps[:1]
    assert near_run([]) == []
    accents = [("say", f'{{"text": "{letter}"}}', "ok") for letter in "éèê"]
    assert len(near_run(done(*accents))) == 1


def at(key: str, issued: float | None, returned_at: float | None) -> CallRecord:
    return CallRecord(id=key, tool="t", arguments="a", near="n", result="r", issued_at=issued, returned_at=returned_at)


@pytest.mark.spec("MON-089", "SMP-007")
@given(st.lists(st.floats(10, 1e4), min_size=2, max_size=6), st.integers(2, 4), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_polls_never_fire(seconds: list[float], repeats: int, cycle: int) -> None:
    messages = [USER, *called(*((("poll", "{}", "running"),) * len(seconds)))]
    calls = turn_calls(messages)
    records = [at(call.key, 100.0, 100.0 + wait) for call, wait in zip(calls[:-1], seconds, strict=False)]
    known = Monitored(calls=tuple(records), ended_at=500.0)
    waited = waits(calls, known, 500.0 + seconds[-1], 10.0)
    assert len(waited) == len(calls)
    assert list(pending_runs(returned(calls, waited), repeats, cycle)) == []


@pytest.mark.spec("MON-089")
def test_a_wait_is_told_by_what_the_session_knows_of_the_call() -> None:
    calls = turn_calls([USER, *called(*(("poll", "{}", "running"),) * 3)])
    keys = [call.key for call in calls]
    assert waits(calls, Monitored(), 99.0, 10.0) == frozenset()
    known = Monitored(calls=(at(keys[0], 1.0, 12.0), at(keys[1], 20.0, 25.0)), ended_at=30.0)
    assert waits(calls, known, 39.0, 10.0) == {keys[0]}
    assert waits(calls, known, 40.0, 10.0) == {keys[0], keys[2]}
    # The same request again, much later: its results came the first time.
    later = Monitored(calls=(*known.calls, at(keys[2], 30.0, 31.0)), ended_at=32.0)
    assert waits(calls, later, 500.0, 10.0) == {keys[0]}


@pytest.mark.spec("MON-118", "MON-125", "MON-089")
def test_a_call_is_recorded_once_and_without_its_text() -> None:
    messages = [USER, *called(("read", '{"path": "secret.txt"}', "hush"))]
    (first,) = new_records(messages[:-1], Monitored(ended_at=5.0), 9.0)
    assert (first.id, first.tool, first.result, first.returned_at, first.issued_at) == ("k0-0", "read", None, None, 5.0)
    known = remembered(Monitored(), MonitorDelta(calls=(first,), ended_at=7.0), 7.0)
    (again,) = new_records(messages, known, 9.0)
    assert (again.issued_at, again.returned_at) == (5.0, 9.0)
    assert again.result is not None
    known = remembered(known, MonitorDelta(calls=(again,)), 9.0)
    assert new_records(messages, known, 50.0) == ()
    assert not any(word in repr(known) for word in ("secret", "hush"))
    assert len(known.calls) == 1


@pytest.mark.spec("MON-118", "MON-141")
def test_a_long_history_does_not_drive_out_the_newest_calls() -> None:
    messages = [USER, *called(*(("ls", f'{{"at": {at}}}', "ok") for at in range(CALLS + 44)))]
    known = remembered(Monitored(), MonitorDelta(calls=new_records(messages, Monitored(), 1.0)), 1.0)
    assert known.calls[-1].id == f"k{CALLS + 43}-0"
    assert new_records(messages, known, 2.0) == (), "the older ones are not told once more"


def test_an_id_that_comes_again_is_another_call() -> None:
    messages = [USER, *round_of(("a", "{}", "x")), *round_of(("a", "{}", "y")), *round_of(("b", "{}", "z"), id="")]
    assert [call.key for call in calls_made(messages)] == ["c0", "c0#2", "0"]
    assert len(new_records(messages, Monitored(), 1.0)) == 3


def test_results_go_with_their_calls_in_whatever_order() -> None:
    calls, one, two = round_of(("a", "{}", "x"), ("b", "{}", "y"))
    assert [call.result for call in calls_made([calls, two, one])] == ["x", "y"]
    nameless = [{"role": "tool", "content": text} for text in ("x", "y")]
    assert [call.result for call in calls_made([calls, *nameless])] == ["x", "y"]
    assert [call.has_result for call in calls_made([calls, two])] == [False, True]


@pytest.mark.parametrize(
    "arguments",
    [
        "[" * 100_000,
        '{"a": ' * 50_000,
        "x" * 1_000_000,
        '{"a": "\\ud800"}',
        '"\ud800',
        '{"a": ' + "9" * 5_000 + "}",
        "",
    ],
)
def test_hostile_arguments_are_compared_all_the_same(arguments: str) -> None:
    made = done(*(("t", arguments, "\udfff"),) * 2)
    assert [run.period for run in pending_runs(made, 3, 3)] == [1]
    assert len(near_run(made)) == 2
    assert canonical(arguments) == canonical(arguments)
    assert len(new_records([USER, *called(("t", arguments, "\udfff"))], Monitored(), 1.0)) == 1


def test_arguments_that_are_no_text_and_calls_without_a_function() -> None:
    message = {"role": "assistant", "tool_calls": [{"id": None}, {"function": {"name": "t", "arguments": {"b": 1}}}]}
    made = calls_made([message])
    assert [(call.tool, call.has_result) for call in made] == [("", False), ("t", False)]
    assert made[1].is_call("t", '{"b":1}')
