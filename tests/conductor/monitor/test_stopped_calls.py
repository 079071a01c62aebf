"""The history cut (MON-112, MON-113)."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.monitor.stopped_calls import Stop, cut_history, shown_name, stops_since_user
from tests.conductor.monitor.calling import USER, shipped_task
from tests.conductor.monitor.test_argument_loop import attempt

MARKER = shipped_task("A1").params["marker"]
RNG = random.Random(7)
HEAD = '{"path": "level.js", "content": "' + "".join(RNG.choices("abcdefgh,;() ", k=1_600))
ROW = "".join(RNG.choices("#.~T", k=95)) + "\\n"


def arguments_of(message: Any) -> str:
    text: str = message["tool_calls"][0]["function"]["arguments"]
    return text


@pytest.mark.spec("MON-112", "MON-113")
def test_the_repetition_goes_and_a_marker_says_so() -> None:
    sent = (HEAD + ROW * 150)[:15_444]
    messages = [USER, *attempt(sent)]
    before = copy.deepcopy(messages)
    cut, found = cut_history(messages, MARKER)
    assert messages == before
    assert found == (Stop("write", 97),)
    told = arguments_of(cut[1])
    assert told[:1_500] == sent[:1_500]
    assert told[1_500:].startswith('[TandemLLM cut this write call: a piece of 97 characters starting with "')
    assert told.endswith("13944 characters are omitted and it was never executed.]")
    assert len(told) < 1_800
    assert cut[0] is messages[0]
    assert cut_history(cut, MARKER) == (cut, ())
    assert stops_since_user(cut, MARKER) == found


@pytest.mark.spec("MON-113")
@pytest.mark.parametrize(
    "messages",
    [
        [USER, *attempt(HEAD + ROW * 150 + '"}')],
        [USER, *attempt(HEAD + "".join(RNG.choices("abcdefgh", k=9_000)))],
        [USER, *attempt(HEAD + ROW * 2)],
        [{"role": "user", "content": HEAD + ROW * 150}],
        [USER, {"role": "assistant", "content": HEAD + ROW * 150}],
        [],
    ],
)
def test_all_else_stays_the_very_object(messages: list[Any]) -> None:
    cut, found = cut_history(messages, MARKER)
    assert cut is messages
    assert found == ()


@pytest.mark.spec("MON-112")
def test_a_placeholder_for_an_invalid_call_is_looked_into() -> None:
    error = f"Invalid input for tool write: JSON parsing failed: Text: {HEAD}{ROW * 150}.\nError: Unterminated string"
    cut, found = cut_history([USER, *attempt(json.dumps({"tool": "write", "error": error}), "invalid")], MARKER)
    assert found == (Stop("write", 97),)
    told = json.loads(arguments_of(cut[1]))
    assert told["error"].startswith(error[:1_500] + "[TandemLLM")
    assert told["error"].endswith("never executed.].\nError: Unterminated string")
    assert stops_since_user(cut, MARKER) == found


def test_a_short_call_keeps_one_copy() -> None:
    told = arguments_of(cut_history([USER, *attempt('{"content": "' + "0, " * 300)], MARKER)[0][1])
    assert told.startswith('{"content": "0, [TandemLLM')


def test_a_policy_of_other_words_counts_by_them() -> None:
    marker = "<<{left_out} of {tool}, {start}, {unit} x {copies}, {tool}>>"
    cut, found = cut_history([USER, *attempt(HEAD + ROW * 150)], marker)
    assert stops_since_user(cut, marker) == found == (Stop("write", 97),)
    assert stops_since_user(cut, MARKER) == ()


@settings(max_examples=40, deadline=None)
@given(st.text('ab{}"\\[:0\n', max_size=60), st.text('ab"\\0', min_size=1, max_size=12), st.integers(0, 900))
def test_whatever_a_client_sends_is_read(head: str, unit: str, copies: int) -> None:
    for name in ("write", "invalid"):
        cut, found = cut_history([USER, *attempt(head + unit * copies, name)], MARKER)
        assert len(arguments_of(cut[1])) <= max(len(head + unit * copies), 2_000)
        assert len(stops_since_user(cut, MARKER)) == len(found)


@pytest.mark.parametrize("sent", ["a" * 5_000_000, "[" * 5_000_000, ("a" * 255 + "b") * 19_000 + "a" * 256])
def test_five_megabytes_are_read(sent: str) -> None:
    """In some hundredths of a second: work that is quadratic in them would not end."""
    for name in ("write", "invalid"):
        cut_history([USER, *attempt(sent, name)], MARKER)


def test_a_name_that_no_utf8_holds_is_shown_without_it() -> None:
    cut, found = cut_history([USER, *attempt(json.dumps({"tool": "\ud800w", "error": ROW * 150}), "invalid")], MARKER)
    assert found == (Stop("w", 97),)
    assert stops_since_user(cut, MARKER) == found
    assert shown_name("\ud800") == "tool"
